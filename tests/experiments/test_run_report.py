"""The report of runs: the right figures, and only of runs that belong together."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from f2stnet.data.split import split
from f2stnet.data.synthetic import CityConfig, city, noise_floor
from f2stnet.errors import InputError
from f2stnet.experiments.forecast_figures import shown_step
from f2stnet.experiments.run_report import floor_figures, name_runs, refuse_unlike, write_report
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries
from f2stnet.training import Run, configure, fit
from small import waves

WINDOW = {"window": {"input": 6, "horizon": 4}}


def train(series: GraphSeries, model: str, folder: Path, seed: int = 0, **sections: dict) -> Run:
    if model in ("stid", "f2stnet"):
        sections = {"training": {"epochs": 2}, "model": {"width": 4}} | sections
    return fit(series, configure(model, seed, {}, WINDOW | sections), folder)


@pytest.fixture(scope="module")
def small_city() -> GraphSeries:
    return city(CityConfig(nodes=6, days=4))


@pytest.fixture(scope="module")
def runs(small_city: GraphSeries, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("runs")
    return [train(small_city, model, out / model) for model in ("stid", "linear", "last-value")]


@pytest.fixture(scope="module")
def html(runs: list[Run], small_city: GraphSeries, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(runs, small_city, path)
    return path.read_text(encoding="utf-8")


def table(html: str) -> dict[str, list[str]]:
    """The rows of the first table by their name."""
    body = html[html.index("<tbody>") : html.index("</tbody>")]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>") if "<td" in row]
    return {unescape(row[0]): row[1:] for row in rows}


def test_the_table_shows_the_figures_of_metrics_json(html: str, runs: list[Run]) -> None:
    rows = table(html)
    assert list(rows) == ["stid", "linear", "last-value", "noise floor"]
    for run in runs:
        test = run.metrics["test"]
        assert rows[run.config.model][0] == f"{test['mae']:.2f}"
        assert rows[run.config.model][3] == f"{test['steps']['3']['mae']:.2f}"
        assert rows[run.config.model][-2] == f"{run.metrics['params']:,}"


def test_the_lowest_is_marked_in_every_column(html: str, runs: list[Run]) -> None:
    best = min(run.metrics["test"]["mae"] for run in runs)
    marked = re.findall(r'<td class="strong">(.*?)</td>', html)
    assert marked[0] == f"{best:.2f}"
    assert len(marked) == 4  # MAE, RMSE, MAPE, step 3


def test_every_figure_is_what_plotly_takes(html: str) -> None:
    texts = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    assert len(texts) == 3 + html.count("<h3>Sensor ")  # by step, by epoch, the map; sensors and the fan
    assert html.count("whole forecasts</h3>") == 1
    for text in texts:
        go.Figure(json.loads(re.sub(r'"(var|faint)\(--\w+\)"', '"#123456"', text)))


def test_the_floor_is_that_of_the_city_at_the_labels_of_the_test_part(runs: list[Run], small_city: GraphSeries) -> None:
    test = split(small_city, runs[0].config.window).test
    labels = (test[:, None] + np.arange(4)).ravel()
    found, wanted = floor_figures(runs[0], small_city, test), noise_floor(small_city, labels)
    assert found is not None
    assert found["mae"] == pytest.approx(wanted["mae"], rel=1e-5)
    assert found["rmse"] == pytest.approx(wanted["rmse"], rel=1e-5)


def test_no_truth_no_floor(tmp_path: Path) -> None:
    series = waves(nodes=3)
    write_report([train(series, "last-value", tmp_path / "run")], series, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "noise floor" not in html
    assert "no learning curves" in html


def test_forecasts_are_drawn_at_the_time_they_are_for(html: str, runs: list[Run], small_city: GraphSeries) -> None:
    texts = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    observed, forecast, _ = json.loads(texts[2])["data"]
    origins = split(small_city, runs[0].config.window).test
    first = next(place for place, value in enumerate(forecast["y"]) if value is not None)
    assert first == shown_step(small_city.step, 4) - 1 == 3
    assert observed["x"][0] == str(small_city.stamps_at(origins[:1])[0])
    node = small_city.nodes.index(re.search(r"Sensor (\S+): typical", html)[1])  # type: ignore[index]
    wanted = runs[0].predict(small_city, origins[:1])[0, 3, node, 0]
    assert forecast["y"][first] == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize(
    ("step", "horizon", "wanted"), [(900, 12, 4), (300, 12, 12), (300, 6, 3), (86_400, 12, 3), (86_400, 2, 2)]
)
def test_an_hour_ahead_where_there_is_one(step: int, horizon: int, wanted: int) -> None:
    assert shown_step(step, horizon) == wanted


def test_runs_are_told_apart_by_seed_then_by_folder(tmp_path: Path) -> None:
    series = waves(nodes=3)
    a, b = (train(series, "last-value", tmp_path / name, seed) for name, seed in (("a", 0), ("b", 1)))
    assert list(name_runs([a, b])) == ["last-value, seed 0", "last-value, seed 1"]
    assert list(name_runs([a, a.__class__(**{**vars(b), "config": a.config})])) == [str(a.folder), str(b.folder)]


def test_runs_that_read_earlier_days_stand_beside_those_that_do_not(tmp_path: Path) -> None:
    series = waves(nodes=3)
    runs = [train(series, model, tmp_path / model) for model in ("f2stnet", "last-value")]
    assert [run.config.window.days for run in runs] == [7, 0]
    refuse_unlike(runs, series)


def test_runs_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    series = waves(nodes=3)
    run = train(series, "last-value", tmp_path / "a")
    other = fit(series, configure("last-value", 0, {}, {"window": {"input": 8, "horizon": 4}}), tmp_path / "b")
    with pytest.raises(InputError, match="other windows"):
        write_report([run, other], series, tmp_path / "report.html")
    changed = replace(series, values=series.values + 1)
    with pytest.raises(InputError, match="other data"):
        write_report([run], changed, tmp_path / "report.html")
    with pytest.raises(InputError, match="not finished"):
        write_report([replace(run, metrics={})], series, tmp_path / "report.html")
    with pytest.raises(InputError, match="at least one run"):
        write_report([], series, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_sensor_names_are_never_markup(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    series = waves(nodes=3, graph=from_edges(np.array([[0, 1], [1, 2]]), [nasty, "b", "c"]))
    write_report([train(series, "last-value", tmp_path / "run")], series, tmp_path / "report.html")
    assert nasty not in (tmp_path / "report.html").read_text(encoding="utf-8")
