"""What needs no training, reported beside a model that was trained."""

from pathlib import Path

import pytest

from f2stnet.training import configure, fit, yardsticks
from small import waves

SMALL = {"window": {"input": 6, "horizon": 4}, "training": {"epochs": 2, "batch": 16}}


def test_a_run_reports_yardsticks_as_they_report_themselves(tmp_path: Path) -> None:
    series = waves(missing_share=0.1)
    run = fit(series, configure("stid", 0, {}, SMALL), tmp_path / "stid")
    assert set(run.metrics["yardsticks"]) == set(yardsticks.NAMES)
    for name, figures in run.metrics["yardsticks"].items():
        alone = fit(series, configure(name, 0, {}, {"window": SMALL["window"]}), tmp_path / name).metrics
        assert "yardsticks" not in alone
        for part in ("validation", "test"):
            assert figures[part] == {key: alone[part][key] for key in figures[part]}


def test_no_table_of_means_is_made_for_more_sensors_than_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yardsticks, "LARGEST_TABLE", 10)
    run = fit(waves(), configure("stid", 0, {}, SMALL), tmp_path / "run")
    assert set(run.metrics["yardsticks"]) == {"last-value"}


@pytest.mark.parametrize(
    ("own", "last", "history", "said"),
    [
        (3.0, 5.0, 4.0, None),
        (4.5, 5.0, 4.0, ("historical-average", 4.0)),
        (4.0, 4.0, 4.5, ("last-value", 4.0)),
        (3.0, None, None, None),
        (None, 5.0, 4.0, None),
    ],
)
def test_the_best_yardstick_that_a_model_does_not_beat(
    own: float | None, last: float | None, history: float | None, said: tuple[str, float] | None
) -> None:
    figures = {name: {"validation": {"mae": mae}} for name, mae in zip(yardsticks.NAMES, (last, history), strict=True)}
    assert yardsticks.better({"validation": {"mae": own}, "yardsticks": figures}) == said
    assert yardsticks.better({"validation": {"mae": own}}) is None
