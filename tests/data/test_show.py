"""The page of a series."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from f2stnet.data import curves, load
from f2stnet.data.show import mean_level, representatives, show
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries
from small import waves


def figures(html: str) -> list[dict]:
    """The figures of a page, each accepted by plotly."""
    texts = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    for text in texts:
        go.Figure(json.loads(re.sub(r'"(var|faint)\(--\w+\)"', '"#123456"', text)))
    return [json.loads(text) for text in texts]


def sections(series: GraphSeries) -> str:
    return "".join(show(series).blocks)


def test_a_page_has_map_profile_lines_and_what_is_missing() -> None:
    html = sections(waves(steps=600, nodes=8, missing_share=0.05))
    for heading in ("At a glance", "The graph", "The mean day", "A few sensors", "What is missing"):
        assert heading in html
    assert len(figures(html)) == 2 + 4 + 2


def test_nothing_missing_is_said_in_words() -> None:
    assert "every value of every sensor was observed" in sections(waves(steps=100))


def test_names_from_the_data_are_never_markup() -> None:
    nasty = "<script>alert(1)</script>"
    graph = from_edges(np.array([[0, 1], [1, 2]]), [nasty, "b", "c"])
    series = replace(
        waves(nodes=3, graph=graph, missing_share=0.3), title=nasty, unit=nasty, channels=(nasty,), targets=(nasty,)
    )
    html = sections(series)
    assert nasty not in html
    assert html.count("<script") == len(figures(html))


def test_a_series_that_cannot_be_trained_on_is_shown_all_the_same() -> None:
    series = waves(steps=15)
    series.mask[:, 1] = False
    page = show(series)
    assert "Training would refuse" in page.lead
    assert "no observation at all" in "".join(page.blocks)


def test_nothing_observed_at_all() -> None:
    series = waves(steps=40)
    series.mask[:] = False
    assert "Nothing was observed." in sections(series)


def test_representatives_are_high_middle_low_and_the_worst() -> None:
    series = waves(steps=100, nodes=21)
    series.values[:] += np.arange(21)[None, :, None] * 100
    level = mean_level(series)
    assert list(representatives(level, series)) == ["high level", "upper middle", "lower middle", "low level"]
    series.mask[:30, 7] = False
    chosen = representatives(mean_level(series), series)
    assert list(chosen.items())[-1] == ("most missing", 7)
    assert chosen["high level"] > chosen["middle level"] > chosen["low level"]


def test_two_sensors_are_not_shown_twice() -> None:
    series = waves(nodes=2)
    assert sorted(representatives(mean_level(series), series).values()) == [0, 1]


def test_mean_level_counts_what_was_observed_in_service() -> None:
    series = replace(waves(steps=48), service_hours=(6 * 3600, 22 * 3600))
    series.mask[10, 0] = False
    inside = series.in_service & series.mask[:, 0, 0]
    assert mean_level(series)[0] == pytest.approx(series.values[inside, 0, 0].mean(), rel=1e-6)


def test_lines_break_where_a_value_is_missing_or_out_of_service() -> None:
    series = replace(waves(steps=48), service_hours=(6 * 3600, 22 * 3600))
    series.mask[12, 0] = False
    shown = curves.observed(series, np.arange(48), 0, 0)
    assert np.isnan(shown[[0, 5, 12, 22]]).all()
    assert np.isfinite(shown[[6, 11, 13, 21]]).all()
    assert curves.time_axis(series)["rangebreaks"] == [{"pattern": "hour", "bounds": [22.0, 6.0]}]


def test_no_more_than_two_weeks_are_drawn_from_the_first_observation() -> None:
    series = waves(steps=1000)
    series.mask[:7] = False
    steps = curves.drawn_steps(series)
    assert (steps[0], len(steps)) == (7, 14 * 24)


def test_the_profile_separates_weekdays_from_weekends() -> None:
    series = waves(steps=24 * 14, nodes=2)
    weekend = series.calendar_at(np.arange(len(series))).day >= 5
    series.values[weekend] = 1.0
    series.values[~weekend] = 3.0
    (shown,) = figures(curves.profile(series))
    lines = {trace["name"]: set(trace["y"]) for trace in shown["data"] if "name" in trace}
    assert lines == {"Monday to Friday": {3.0}, "weekend": {1.0}}


def test_daily_data_has_a_mean_year_and_hours_no_meaning() -> None:
    html = curves.profile(waves(steps=400, step=86_400))
    assert "The mean year" in html
    (shown,) = figures(html)
    assert shown["data"][-1]["x"][0] == "Jan"
    assert "The mean week" in curves.profile(waves(steps=60, step=86_400))


def test_the_share_of_missing_values_is_right_over_time() -> None:
    series = waves(steps=120, nodes=4)
    series.mask[60:, 0] = False
    over_time, grid = figures("".join(curves.missing(series)))
    assert over_time["data"][0]["y"] == [0.0] * 60 + [25.0] * 60
    assert grid["layout"]["yaxis"]["ticktext"] == ["s0"]


@pytest.mark.real
@pytest.mark.parametrize("name", ["pems08_partial", "hzmetro", "china_pm25_daily_183", "beijing_air_12", "sz_taxi"])
def test_real_sets_are_shown(real_data: Path, name: str) -> None:
    assert len(figures(sections(load(real_data / name)))) >= 6
