"""The picture and the table of a partition say what the holdings are."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import plotly.graph_objects as go
import pytest

from f2stnet.data.split import WindowConfig
from f2stnet.federated import partition_picture
from f2stnet.federated.partition import Holding, PartitionConfig, partition, shares
from f2stnet.federated.partition_picture import label_level, partition_blocks
from f2stnet.graph import from_coordinates, from_edges
from f2stnet.page import PALETTE
from f2stnet.series import GraphSeries
from small import waves

WINDOW = WindowConfig(input=6, horizon=4)


def blocks(series: GraphSeries, **config: object) -> tuple[list[Holding], str]:
    holdings = partition(series, WINDOW, PartitionConfig(**config), 0)  # type: ignore[arg-type]
    return holdings, "".join(partition_blocks(series, holdings, WINDOW))


def figures(html: str) -> list[dict]:
    """Each figure as plotly gets it; plotly itself judges whether it could draw it."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    for text in found:
        go.Figure(json.loads(re.sub(r'"(var|faint)\(--\w+\)"', '"#123456"', text)))
    return [json.loads(text) for text in found]


def rows(html: str) -> list[list[str]]:
    body = re.search(r"<tbody>(.*?)</tbody>", html, re.S)
    assert body
    return [[unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in body[1].split("</tr>")[:-1]]


def test_bars_and_table_show_the_shares_of_every_client() -> None:
    holdings, html = blocks(waves(steps=400), clients=4)
    (bars,) = figures(html)
    told = shares(holdings)["clients"]
    assert [trace["name"] for trace in bars["data"]] == ["training", "validation", "test"]
    for trace, part in zip(bars["data"], ("train", "validation", "test"), strict=True):
        assert trace["y"] == pytest.approx([100 * client["share"][part] for client in told])
    assert bars["layout"]["shapes"][0]["y0"] == 25
    table = rows(html)
    assert [row[0] for row in table] == ["0", "1", "2", "3"]
    assert [row[1] for row in table] == [f"{len(one.parts.train):,}" for one in holdings]
    assert {row[5] for row in table} == {"4"}


def test_the_heat_map_of_regime_has_a_row_for_each_client_that_sums_to_all() -> None:
    holdings, html = blocks(waves(steps=400), kind="regime", clients=5)
    heat = figures(html)[1]["data"][0]
    assert np.sum(heat["z"], axis=1) == pytest.approx([100] * 5)
    assert np.sum(heat["customdata"], axis=1).tolist() == [len(one.parts.train) for one in holdings]
    assert len(heat["x"]) == len(set(heat["x"])) == np.shape(heat["z"])[1]
    assert heat["x"][0].startswith("00–06 ")


def test_strata_of_odd_hours_are_named_with_minutes_and_those_of_daily_steps_without_hours() -> None:
    _, html = blocks(waves(steps=600, step=1800), kind="regime", clients=2, times=5, levels=2)
    assert figures(html)[1]["data"][0]["x"][0].startswith("00:00–05:00 ")
    _, html = blocks(waves(steps=400, step=86_400), kind="regime", clients=2)
    assert set(figures(html)[1]["data"][0]["x"]) <= {"low", "middle", "high"}


def grid_city(mapped: bool) -> GraphSeries:
    places = np.stack(np.meshgrid(np.arange(6), np.arange(6)), axis=-1).reshape(-1, 2) / 100 + np.array([50.0, 8.0])
    graph = from_coordinates(places, [f"s{i}" for i in range(36)], neighbours=4)
    return waves(steps=100, nodes=36, graph=graph if mapped else replace(graph, coordinates=None))


@pytest.mark.parametrize("mapped", [True, False])
def test_the_map_shows_each_sensor_once_with_its_owner_and_the_cut_edges(mapped: bool) -> None:
    series = grid_city(mapped)
    holdings, html = blocks(series, kind="nodes", clients=8, alpha_het=1.0)
    (drawn,) = figures(html)
    dots = drawn["data"][2:]
    assert [len(trace["x"]) for trace in dots] == [len(one.nodes) for one in holdings]
    looks = {(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in dots}
    assert len(looks) == 8
    assert {note["text"] for note in drawn["layout"]["annotations"]} == {f"<b>{client}</b>" for client in range(8)}
    owner = np.zeros(36, int)
    for client, one in enumerate(holdings):
        owner[one.nodes] = client
    edges = series.graph.adjacency.tocoo()
    cut = int((owner[edges.row] != owner[edges.col]).sum()) // 2
    assert f"{cut} of {series.graph.edge_count} edges" in html
    assert len(drawn["data"][1]["x"]) == 3 * cut
    assert ("no coordinates" in html) != mapped
    if mapped:
        assert series.graph.coordinates is not None
        assert dots[0]["x"] == pytest.approx(series.graph.coordinates[holdings[0].nodes, 1])


def test_neighbouring_clients_have_other_colours() -> None:
    ends, others = np.array([0, 0, 1, 2, 0, 7]), np.array([1, 2, 2, 3, 6, 1])
    hues = partition_picture._colours(ends, others, 12)
    assert all(hues[a] != hues[b] for a, b in zip(ends, others, strict=True))
    assert max(hues.count(hue) for hue in hues) <= 12 // len(PALETTE) + 1


def test_a_graph_too_large_to_draw_is_shown_as_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_picture, "MOST_NODES", 10)
    holdings, html = blocks(waves(steps=100, nodes=30), kind="nodes", clients=4)
    (bars,) = figures(html)
    assert bars["data"][0]["y"] == [len(one.nodes) for one in holdings]


def test_the_mean_label_counts_a_step_as_often_as_windows_have_it() -> None:
    series = waves(steps=120, nodes=5, channels=2, known=1, missing_share=0.2)
    for one in partition(series, WINDOW, PartitionConfig("nodes", clients=2), 0):
        steps = one.parts.train[:, None] + np.arange(4)
        labels = series.values[steps][:, :, one.nodes, 0]
        seen = series.mask[steps][:, :, one.nodes, 0]
        assert label_level(series, one, 4) == pytest.approx(labels[seen].mean(dtype=np.float64))


def test_a_client_that_observed_nothing_has_no_mean() -> None:
    series = waves(steps=120)
    holdings, _ = blocks(series, clients=2)
    blind = replace(series, mask=np.zeros_like(series.mask))
    assert np.isnan(label_level(blind, holdings[0], 4))
    assert rows("".join(partition_blocks(blind, holdings, WINDOW)))[0][-1] == "–"


def test_names_of_sensors_are_never_markup() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2]]), ["<b>bold</b>", "b", "c"])
    _, html = blocks(waves(steps=100, nodes=3, graph=graph), kind="nodes", clients=2)
    shown = [text for trace in figures(html)[0]["data"][2:] for text in trace["hovertext"]]
    assert any(text.startswith("&lt;b&gt;") for text in shown)
    assert not any("<b>" in text for text in shown)
