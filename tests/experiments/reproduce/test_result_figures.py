"""Every figure of the paper is drawn from records, twice: as SVG and for the page."""

import json
import re
from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest
from made_up import make
from test_result_tables import shelved

from f2stnet.experiments.reproduce.figures import Figure, Series, shades, table_figures
from f2stnet.experiments.reproduce.layouts import suite_tables
from f2stnet.experiments.reproduce.plots import plot
from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.round_figures import suite_figures
from f2stnet.experiments.reproduce.shelf import groups
from f2stnet.experiments.reproduce.suite import find_suite
from f2stnet.experiments.reproduce.svg import svg, ticks
from f2stnet.experiments.reproduce.tables import Cell, Column, Row, Table

DRAWN = {
    "accuracy": {"Accuracy against size"},
    "federated": {"Δ", "Training loss", "Worst-5 client MAE", "Client-wise MAE deviation", "Client-wise RMSE"},
    "ablation": {"RMSE", "MAE", "MAPE %"},
    "clients": {"Training loss", "Worst-5 client MAE", "Client-wise MAE deviation"},
    "schedules": {"λ over the rounds", "Worst client's MAE", "Training loss"},
    "sensitivity": {"λ_init and λ_max: pems08-part, MAE of the worst client", "worst client's MAE"},
}


def figures_of(name: str) -> list[Figure]:
    return figures_from(name, [make(run) for run in find_suite(name).runs(["pems08-part"])])


def figures_from(name: str, records: list[Record]) -> list[Figure]:
    shelf = shelved(records)
    found = groups(find_suite(name), shelf)
    return suite_figures(suite_tables(found, shelf), found, shelf)


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_of_the_paper_is_drawn_from_its_suite(name: str) -> None:
    figures = figures_of(name)
    assert DRAWN[name] <= {figure.title.partition(" · ")[0] for figure in figures}
    assert len({figure.key for figure in figures}) == len(figures)
    for figure in figures:
        assert figure.key.isascii()
        ElementTree.fromstring(svg(figure))
        found = re.search(r'<script type="application/json">(.*?)</script>', plot(figure), re.S)
        assert found
        plain = json.loads(re.sub(r'"(var|faint)\(--\w+\)"', '"#123456"', found[1]))
        go.Figure(plain)  # refuses unknown keys and values


def test_no_records_no_figures() -> None:
    suite, shelf = find_suite("federated"), shelved([])
    found = groups(suite, shelf)
    assert suite_figures(suite_tables(found, shelf), found, shelf) == []


def test_client_wise_rmse_is_drawn_at_each_heterogeneity() -> None:
    titles = [figure.title for figure in figures_of("federated") if figure.kind == "boxes"]
    assert any("partition regime, α_het = 5" in title for title in titles)
    assert any("partition regime, α_het = 10" in title for title in titles)


def test_every_row_has_its_box_and_curves_say_how_many_are_left_out() -> None:
    figures = figures_of("federated")
    rows = [row.name for row in find_suite("federated").blocks[0].rows]
    (boxes,) = [one for one in figures if one.key == "federated-1-pems08-part-partition-regime-alpha-10-clients"]
    assert [line.name for line in boxes.series] == rows
    (curves,) = [one for one in figures if one.key == "federated-1-pems08-part-partition-regime-alpha-10-worst5-mae"]
    assert [line.name for line in curves.series] == rows[:10]
    assert curves.caption.endswith(f"The first 10 of {len(rows)} rows.")


def test_a_row_has_one_colour_in_all_figures_of_its_block() -> None:
    """FedAvg has no λ, so the row after it stands one place further up in that figure."""
    records = [make(run) for run in find_suite("schedules").runs(["pems08-part"])]
    for record in records:
        if record["config"]["federation"]["method"] == "fedavg":
            del record["rounds"]["lambda"]
    shown = [one for one in figures_from("schedules", records) if one.kind == "lines"]
    numbers = [{line.name: line.number for line in one.series} for one in shown]
    whole = max(numbers, key=len)
    assert any(len(one) < len(whole) for one in numbers)
    assert all(one.items() <= whole.items() for one in numbers)
    less = next(one for one in shown if len(one.series) < len(whole))
    (same,) = [one for one in shown if one.title.startswith("Training loss")]
    stroke = re.compile(r'stroke="(#\w+)" stroke-width="1.8" stroke-dasharray="([^"]*)"')
    assert set(stroke.findall(svg(less))) < set(stroke.findall(svg(same)))


def test_the_ends_of_the_scale_leave_room_for_the_methods() -> None:
    records = [make(run) for run in find_suite("federated").runs(["pems08-part"])]
    for record in records:
        if record["config"]["federation"]["method"] == "local":
            for errors in record["clients"].values():
                errors["rmse"] *= 50
    figures = {one.key: one for one in figures_from("federated", records)}
    boxes = figures["federated-1-pems08-part-partition-regime-alpha-10-clients"]
    names = [line.name for line in boxes.series]
    assert "local only" not in names
    assert "pooled" in names
    assert "Left out, being far off: local only (" in boxes.caption
    (bars,) = figures["federated-1-pems08-part-partition-regime-score"].series
    assert {"local only", "pooled"}.isdisjoint(bars.x)
    assert "FedAvg" in bars.x


def test_accuracy_is_held_against_what_a_training_step_takes() -> None:
    """Costs are another suite's; a model without them, or far behind, is not shown."""
    accuracy = [make(run) for run in find_suite("accuracy").runs(["pems08-part"])]
    assert not [one for one in figures_from("accuracy", accuracy) if "against cost" in one.title]
    mae = {"f2stnet": 12.0, "stid": 13.0, "paper": 37.0, "staeformer": 12.5}
    for record in accuracy:
        record["test"]["mae"] = mae.get(record["config"]["run"]["model"]["name"], 14.0)
    costs = [make(run) for run in find_suite("efficiency").runs(["ring-307"])]
    step = {"f2stnet": 4.0, "stid": 1.0, "paper": 2.0, "staeformer": 60.0}
    for record in costs:
        record["test"]["step_ms"] = step.get(record["config"]["run"]["model"]["name"], 50.0)
    (figure,) = [one for one in figures_from("accuracy", [*accuracy, *costs]) if "against cost" in one.title]
    assert {line.name: (line.x[0], line.y[0]) for line in figure.series}["STID"] == (1.0, 13.0)
    assert "Nobody is both cheaper and better than: F2STNet, STID." in figure.caption
    assert figure.caption.endswith("Left out, being far off: F2STNet, the paper's equations (37.0).")
    assert not {"linear", "F2STNet, the paper's equations"} & {line.name for line in figure.series}


def test_costs_of_other_data_are_no_costs_at_pems04_s_size() -> None:
    accuracy, efficiency = find_suite("accuracy"), find_suite("efficiency")
    records = [make(run) for run in accuracy.runs(["pems08-part"]) if run.model == "stid"]
    for data, ms in (("ring-307", 50.0), ("town", 1.5)):
        (cost,) = [make(run) for run in efficiency.runs([data]) if run.model == "stid"]
        cost["test"]["step_ms"] = ms
        records.append(cost)
    (figure,) = [one for one in figures_from("accuracy", records) if "against cost" in one.title]
    assert [line.x for line in figure.series] == [[50.0]]


def test_a_point_is_told_in_the_unit_of_its_axis() -> None:
    records = [make(run) for run in find_suite("accuracy").runs(["pems08-part"])]
    records += [make(run) for run in find_suite("efficiency").runs(["ring-307"])]
    told = {}
    for figure in figures_from("accuracy", records):
        found = re.search(r'<script type="application/json">(.*?)</script>', plot(figure), re.S)
        assert found
        told[figure.title.partition(" · ")[0]] = {line["hovertemplate"] for line in json.loads(found[1])["data"]}
    assert told == {
        "Accuracy against size": {"%{y:,.4~g} with %{x:,.4~s} parameters<extra>%{text}</extra>"},
        "Accuracy against cost": {"%{y:,.4~g} with %{x:,.4~g} ms a training step<extra>%{text}</extra>"},
    }


def test_bars_of_one_title_under_two_headings_have_files_of_their_own() -> None:
    columns = [Column("RMSE", f"α_het = {alpha}") for alpha in (5, 10)]
    rows = [Row(name, [Cell({0: 20.0}, (0,)), Cell({0: 30.0}, (0,))]) for name in ("FedAvg", "ours")]
    figures = table_figures(Table("key", "Methods", "", "method", columns, rows, figures=("bars",)))
    assert [(figure.key, figure.title) for figure in figures] == [
        ("key-rmse-alpha-5", "RMSE, α_het = 5 · Methods"),
        ("key-rmse-alpha-10", "RMSE, α_het = 10 · Methods"),
    ]


@pytest.mark.parametrize(
    ("figures", "ends"), [([20.74, 20.98], (20.3385, 21.3815)), ([10.0, 20.0], (10.0, 20.0)), ([0.0, 0.0], (0.0, 0.0))]
)
def test_figures_that_are_all_but_alike_have_colours_that_are(figures: list[float], ends: tuple[float, float]) -> None:
    figure = Figure("k", "t", "", "heat", "", "", [Series("row", ["a", "b", "c"], [*figures, None])])
    assert shades(figure) == pytest.approx(ends)
    ElementTree.fromstring(svg(figure))


def test_what_cannot_be_negative_has_no_negative_scale() -> None:
    figure = Figure("k", "t", "", "lines", "round", "λ", [Series("a", [1, 2], [0.03, 0.95])])
    texts = [part.text for part in ElementTree.fromstring(svg(figure)).iter("{http://www.w3.org/2000/svg}text")]
    assert not [text for text in texts if text and text.startswith("-")]
    assert '"rangemode":"nonnegative"' in plot(figure)
    figure.series[0].y[0] = -0.5
    assert '"rangemode":"normal"' in plot(figure)


def test_a_long_name_has_two_lines_and_nothing_is_cut_from_it() -> None:
    name = "recommended: a method, its momentum, equal steps"
    figure = Figure("k", "Title", "", "boxes", "", "RMSE", [Series(name, ["a", "b"], [1.0, 2.0])], "", "")
    texts = [element.text for element in ElementTree.fromstring(svg(figure)).iter() if element.tag.endswith("text")]
    first, second = (text for text in texts if text and text in name)
    assert f"{first} {second}" == name
    assert f"{first}\u003cbr\u003e{second}" in plot(figure).replace("\\u003c", "<").replace("\\u003e", ">")


def test_curves_are_means_over_seeds() -> None:
    (figure,) = [one for one in figures_of("schedules") if one.title.startswith("Training loss")]
    suite = find_suite("schedules")
    runs = [run for run in suite.runs(["pems08-part"]) if run.row == "fixed"]
    (line,) = [line for line in figure.series if line.name == "fixed"]
    firsts = [make(run)["rounds"]["train_loss"][0] for run in runs]
    assert len(firsts) == 3
    assert line.y[0] == pytest.approx(sum(firsts) / 3)


def test_names_in_a_figure_are_never_markup() -> None:
    nasty = "<script>alert(1)</script>&"
    for kind in ("lines", "bars", "scatter", "boxes", "heat"):
        series = [
            Series(nasty, [nasty, "b"] if kind in ("bars", "boxes", "heat") else [1, 2], [1.0, 2.0], [None, None])
        ]
        figure = Figure("key", nasty, "", kind, nasty, nasty, series, nasty)  # type: ignore[arg-type]
        drawn = svg(figure)
        ElementTree.fromstring(drawn)
        assert "<script>" not in drawn
        assert "<script>alert" not in plot(figure)


@pytest.mark.parametrize(("points", "beside"), [(6, True), (7, False), (13, False)])
def test_names_stand_beside_a_few_points_and_in_a_legend_beyond(points: int, beside: bool) -> None:
    series = [Series(f"model {n}", [1e5 + n], [20.0 + n], [None]) for n in range(points)]
    figure = Figure("key", "title", "", "scatter", "x", "y", series, log_x=True)
    drawn = ElementTree.fromstring(svg(figure))
    texts = [text for text in drawn.iter("{http://www.w3.org/2000/svg}text") if (text.text or "").startswith("model")]
    assert [text.text for text in texts] == [line.name for line in series]  # each once
    assert {float(text.get("y", "0")) < 110 for text in texts[:3]} == {not beside}  # the legend is above the plot
    marks = {
        ElementTree.tostring(part) for part in drawn if part.get("fill", "").startswith("#") and part.tag[-1] != "t"
    }
    assert len(marks) == points * (1 if beside else 2)  # no two are alike
    assert ('"mode":"markers+text"' in plot(figure)) is beside
    assert ('"showlegend":true' in plot(figure)) is not beside


@pytest.mark.parametrize(("low", "high"), [(0, 1), (20.1, 23.4), (-5, 5), (3, 3), (0.001, 0.0011), (1e5, 3e6)])
def test_ticks_are_round_and_cover_the_range(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low + 1e-9
    assert found[-1] >= high - 1e-9
    assert len(found) <= 9


def test_figures_of_blocks_on_one_set_have_titles_and_files_of_their_own() -> None:
    suite = find_suite("federated")
    shelf = shelved([make(run) for run in suite.runs(["pems08-part"], [0])])
    found_groups = groups(suite, shelf)
    figures = suite_figures(suite_tables(found_groups, shelf), found_groups, shelf)
    assert len({figure.title for figure in figures}) == len({figure.key for figure in figures}) == len(figures)
    assert "Training loss · Recommended compositions: pems08-part" in {figure.title for figure in figures}
