"""What `check` finds, on series made to have exactly that."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.data import load
from f2stnet.data.check import check, find_gaps
from f2stnet.data.split import WindowConfig
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries
from f2stnet.training.fit import refuse_empty_sensors
from small import chain, waves


def unseen(series: GraphSeries, *where: object) -> GraphSeries:
    """`series` without what was observed there."""
    mask = series.mask.copy()
    mask[where] = False
    return replace(series, mask=mask)


def with_value(series: GraphSeries, where: tuple, value: float) -> GraphSeries:
    values = series.values.copy()
    values[where] = value
    return replace(series, values=values)


def test_a_sound_series_has_neither_problems_nor_remarks() -> None:
    found = check(waves(steps=240, nodes=4))
    assert found.problems == found.remarks == ()
    assert (found.steps, found.sensors, found.edges, found.step) == (240, 4, 3, "1h")
    assert (found.first, found.last) == ("2024-01-01 00:00", "2024-01-10 23:00")
    assert found.components == (4,)
    assert found.windows == {"train": 130, "validation": 43, "test": 44}
    assert found.missing == 0
    assert found.worst == {}


def test_sensors_that_come_after_the_training_part_are_named() -> None:
    series = waves(steps=240, nodes=4)
    late = unseen(unseen(series, slice(0, 200), 1), slice(0, 230), 3)
    told = "no observation in the training part of sensor 's1', 's3'; a model learns nothing about it"
    assert told in check(late).remarks
    assert check(late).problems == ()
    assert check(unseen(series, slice(0, 100), 1)).remarks == ()
    assert not any("training part" in line for line in check(unseen(series, slice(None), 1)).remarks)


def test_findings_go_into_json() -> None:
    found = check(unseen(waves(), slice(5, 9)))
    assert json.loads(json.dumps(dataclasses.asdict(found), allow_nan=False))["gaps"][0]["steps"] == 4


def test_gaps_are_steps_at_which_nothing_at_all_was_observed() -> None:
    series = unseen(unseen(unseen(waves(), slice(10, 13)), slice(50, 51)), slice(20, 30), 0)
    found = check(series)
    assert found.gap_count == 2
    assert found.gap_steps == 4
    assert [(gap.first, gap.last, gap.steps) for gap in found.gaps] == [
        ("2024-01-01 10:00", "2024-01-01 12:00", 3),
        ("2024-01-03 02:00", "2024-01-03 02:00", 1),
    ]
    assert "2 gaps" in found.remarks[0]


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_gaps_cover_the_silent_steps_and_no_other(silent: list[bool]) -> None:
    series = unseen(waves(steps=len(silent)), np.array(silent))
    gaps = find_gaps(series)
    assert sum(gap.steps for gap in gaps) == sum(silent)
    starts = [now and not before for before, now in zip([False, *silent], silent, strict=False)]
    assert len(gaps) == sum(starts)


def test_hours_outside_service_are_neither_gaps_nor_missing() -> None:
    series = replace(waves(steps=240), service_hours=(6 * 3600, 22 * 3600))
    night = unseen(series, ~series.in_service)
    found = check(night)
    assert found.gap_count == 0
    assert found.missing == 0
    assert found.in_service == 160
    # From 20:00 to 08:00 of the next day: one gap of four steps of service.
    gap = check(unseen(night, slice(20, 32))).gaps[0]
    assert (gap.first, gap.last, gap.steps) == ("2024-01-01 20:00", "2024-01-02 07:00", 4)


def test_missing_shares_by_sensor() -> None:
    found = check(unseen(unseen(waves(steps=200), slice(0, 50), 2), slice(0, 10), 1))
    assert found.worst == pytest.approx({"s2": 0.25, "s1": 0.05})
    assert found.missing == pytest.approx(0.075)
    assert list(found.worst) == ["s2", "s1"]


def test_a_sensor_without_observations_is_a_problem() -> None:
    found = check(unseen(waves(), slice(None), 1))
    assert found.empty == ("s1",)
    assert "'s1'" in found.problems[0]


def test_too_short_a_series_is_a_problem() -> None:
    found = check(waves(steps=20))
    assert found.windows is None
    assert "20 steps" in found.problems[0]


def test_a_part_without_observations_is_a_problem() -> None:
    series = waves(steps=240)
    found = check(unseen(series, slice(142, 240)))
    assert found.problems == ("the validation part has no observation of c0",)


def test_service_hours_are_named_where_they_leave_too_few_windows() -> None:
    series = replace(waves(steps=240), service_hours=(6 * 3600, 22 * 3600))
    assert "0 windows of 12 + 12 steps that lie within the service hours: too few" in check(series).problems[0]
    assert check(series, WindowConfig(6, 6)).problems == ()


def test_a_sensor_that_is_silent_in_service_alone_is_no_problem_since_training_takes_it() -> None:
    series = replace(waves(steps=240), service_hours=(6 * 3600, 22 * 3600))
    found = check(unseen(series, series.in_service, 1), WindowConfig(6, 6))
    refuse_empty_sensors(unseen(series, series.in_service, 1))
    assert found.problems == found.empty == ()
    assert "sensor without an observation within the service hours: 's1'" in found.remarks


def test_readings_outside_service_do_not_fill_a_part() -> None:
    series = replace(waves(steps=240), service_hours=(6 * 3600, 22 * 3600))
    open_hours = unseen(series, series.in_service & (np.arange(240) >= 130))
    assert check(open_hours, WindowConfig(6, 6)).problems == ("the validation part has no observation of c0",)


def test_constant_sensors_are_remarked_on() -> None:
    found = check(with_value(waves(), (slice(None), 3), 7.0))
    assert found.constant == ("s3",)
    assert any("never changes" in remark for remark in found.remarks)


def test_far_values_are_remarked_on_and_usual_ones_are_not() -> None:
    found = check(with_value(waves(), (100, 2), 9999.0))
    assert [(o.sensor, o.stamp, o.value) for o in found.outliers] == [("s2", "2024-01-05 04:00", 9999.0)]
    assert any("9999" in remark for remark in found.remarks)


def test_channel_facts_are_over_what_was_observed() -> None:
    series = with_value(with_value(waves(), (0, 0), -5.0), (1, 0), 0.0)
    facts = check(unseen(series, 2, 0)).channels["c0"]
    seen = series.mask.copy()
    seen[2, 0] = False
    assert facts.minimum == -5.0
    assert facts.mean == pytest.approx(series.values[seen].mean(), rel=1e-5)
    assert facts.negatives == 1
    assert facts.zeros == pytest.approx(1 / seen.sum())
    assert facts.missing == pytest.approx(1 / seen.size)


def test_isolated_nodes_and_components() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2], [4, 5]]), list("abcdef"))
    found = check(waves(nodes=6, graph=graph))
    assert found.isolated == ("d",)
    assert found.components == (3, 2, 1)
    assert any("3 parts" in remark for remark in found.remarks)


def test_notes_of_the_loader_are_kept() -> None:
    series = replace(waves(graph=replace(chain(4), notes=("made symmetric",))), notes=("sorted",))
    assert check(series).notes == ("sorted", "made symmetric")


@pytest.mark.real
def test_real_facts(real_data: Path) -> None:
    found = check(load(real_data / "pems08_partial"))
    assert (found.steps, found.sensors, found.windows) == (7156, 170, {"train": 4279, "validation": 1427, "test": 1427})
    assert found.problems == ()
