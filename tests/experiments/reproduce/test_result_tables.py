"""Tables of records: what is ranked, what is said where nothing was run, and how it is written down."""

import csv
import io
import re
from pathlib import Path

import pytest
from made_up import make
from tiny import SUITE, suite_file

from f2stnet.experiments.reproduce.latex import escape, latex
from f2stnet.experiments.reproduce.layouts import suite_tables
from f2stnet.experiments.reproduce.markdown import markdown
from f2stnet.experiments.reproduce.records import Record
from f2stnet.experiments.reproduce.sheet import sheet
from f2stnet.experiments.reproduce.shelf import Shelf, groups
from f2stnet.experiments.reproduce.suite import Run, Suite, find_suite, read_suite
from f2stnet.experiments.reproduce.tables import Cell, Column, Row, Table, rank
from f2stnet.federated.fairness import Scores, composite_gain


def _cell(*values: float, seeds: int = 3) -> Cell:
    return Cell(dict(enumerate(values)), tuple(range(seeds)))


def _table(*rows: Row, better: str = "lower") -> Table:
    return rank(Table("key", "Title", "", "model", [Column("RMSE", better=better)], list(rows)))  # type: ignore[arg-type]


def shelved(records: list[Record]) -> Shelf:
    from f2stnet.experiments.reproduce.keys import cell_key

    return Shelf([record | {"cell": cell_key(record["config"], record["data"]["name"])} for record in records])


def tables_of(suite: Suite, runs: list[Run]) -> list[Table]:
    shelf = shelved([make(run) for run in runs])
    return suite_tables(groups(suite, shelf), shelf)


def test_a_deviation_is_shown_only_over_all_paired_seeds() -> None:
    assert _cell(1.0, 2.0, 3.0).text(2) == "2.00 ± 1.00"
    assert _cell(1.0, 2.0).text(2) == "1.50 (2 of 3 seeds)"
    assert _cell(1.0, seeds=1).text(2) == "1.00"
    assert Cell(seeds=(0, 1)).text(2) == "not run"


def test_the_paper_s_figure_stands_beside_ours_or_beside_the_word_that_there_is_none() -> None:
    assert Cell(paper="18.03", needs="PeMS04").text(2) == "paper: 18.03, here: not run (needs PeMS04)"
    assert Cell({0: 18.0}, (0,), paper="18.03").text(2) == "18.00 (paper: 18.03)"


def test_best_and_second_are_ranked_and_incomplete_cells_do_not_compete() -> None:
    table = _table(
        Row("a", [_cell(5.0, 5.0, 5.1)]), Row("b", [_cell(3.0, 3.1, 3.2)]), Row("c", [_cell(1.0)]),
        Row("d", [_cell(4.0, 4.1, 4.2)]), Row("e", [Cell(seeds=(0, 1, 2))]),
    )  # fmt: skip
    assert [row.cells[0].rank for row in table.rows] == [0, 1, 0, 2, 0]
    far = table.rows[0].cells[0].difference
    assert far is not None
    assert far.mean == pytest.approx(29.0 / 15)
    assert not far.tie


def test_a_reference_does_not_compete() -> None:
    table = _table(Row("pooled", [_cell(1.0, 1.0, 1.0)], reference=True), Row("a", [_cell(2.0, 2.0, 2.0)]),
                   Row("b", [_cell(3.0, 3.0, 3.0)]))  # fmt: skip
    assert [row.cells[0].rank for row in table.rows] == [0, 1, 2]


def test_figures_that_read_the_same_share_a_rank_and_higher_can_be_better() -> None:
    rows = {"a": (2.001, 2.0, 2.0), "b": (2.0, 2.0, 2.0), "c": (1.0, 1.0, 1.0)}
    table = _table(*(Row(name, [_cell(*values)]) for name, values in rows.items()), better="higher")
    assert [row.cells[0].rank for row in table.rows] == [1, 1, 2]


def test_a_tie_is_marked_in_every_format() -> None:
    table = _table(
        Row("a", [_cell(3.0, 3.4, 3.1)]), Row("b", [_cell(3.1, 3.3, 3.2)]), Row("far", [_cell(9.0, 9.1, 9.2)])
    )
    assert "<u>3.20 ± 0.10 ≈</u>" in markdown(table)
    assert "**3.17 ± 0.21**" in markdown(table)
    assert "9.10 ± 0.10 |" in markdown(table)
    assert r"\underline{3.20 $\pm$ 0.10 $\approx$}" in latex(table)
    assert r"\textbf{3.17 $\pm$ 0.21}" in latex(table)
    rows = {row["row"]: row for row in csv.DictReader(io.StringIO(sheet(table)))}
    assert [rows[name]["tie"] for name in ("a", "b", "far")] == ["", "true", "false"]
    assert float(rows["far"]["low95"]) < float(rows["far"]["difference_to_best"]) < float(rows["far"]["high95"])


def test_markdown_shows_the_intervals_and_keeps_names_in_their_cells() -> None:
    text = markdown(_table(Row("a|b", [_cell(3.0, 3.0, 3.0)]), Row("c", [_cell(5.0, 5.0, 5.0)])))
    assert "| a\\|b | **3.00 ± 0.00** |" in text
    assert "| c | 2.00 [2.00, 2.00] |" in text


def test_latex_is_balanced_and_special_signs_are_escaped() -> None:
    assert escape("50 % of a_b & α_het") == r"50 \% of a\_b \& $\alpha_{\mathrm{het}}$"
    for table in tables_of(find_suite("federated"), find_suite("federated").runs(["pems08-part"])[:12]):
        text = latex(table)
        assert text.count("{") == text.count("}")
        columns = re.search(r"\\begin\{tabular\}\{l(c+)\}", text)
        assert columns
        body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
        for line in body.strip().splitlines():
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns[1]), line


def test_accuracy_has_a_table_for_each_set_with_records_and_each_of_the_paper_s() -> None:
    suite = find_suite("accuracy")
    found = {table.where: table for table in tables_of(suite, suite.runs(["pems08-part"]))}
    assert set(found) == {"pems08-part", "pems04", "hzmetro", "knowair"}
    paper = [cell.text(2) for row in found["pems04"].rows for cell in row.cells]
    assert "paper: 18.028 ± 0.09, here: not run (needs PeMS04)" in paper
    assert all(text.startswith("paper: ") for text in paper)
    ours = {row.name: row for row in found["pems08-part"].rows}
    assert ours["F2STNet"].cells[1].deviation() is not None
    assert ours["STAEformer"].cells[1].deviation() is None
    assert ours["STAEformer"].note == "published recipe, cap of 66 epochs"


def test_measured_sets_stand_side_by_side_as_in_the_paper() -> None:
    suite = find_suite("accuracy")
    tables = tables_of(suite, suite.runs(["pems08-part", "hzmetro-10min"]))
    joined, first = tables[0], next(table for table in tables if table.where == "pems08-part")
    assert [column.group for column in joined.columns] == ["pems08-part"] * 3 + ["hzmetro-10min"] * 3
    assert len(joined.rows) == len(first.rows)
    assert [cell.text(2) for cell in joined.rows[3].cells[:3]] == [cell.text(2) for cell in first.rows[3].cells[1:]]
    assert tables_of(suite, suite.runs(["pems08-part"]))[0].where == "pems08-part"  # one set has no company


JOINED = """
[[blocks]]
data = ["x", "y"]
seeds = [0]
together = true
[[blocks.rows]]
name = "A"
model = "stid"
[[blocks.rows]]
name = "B"
model = "linear"
[[blocks.rows]]
name = "C, only on x"
model = "f2stnet"
data = ["x"]
"""


def test_ranks_of_sets_side_by_side_are_those_of_the_rows_that_all_sets_have(tmp_path: Path) -> None:
    suite = read_suite(suite_file(tmp_path, JOINED))
    records = [make(run) for run in suite.runs()]
    for record in records:
        record["test"]["rmse"] = {"stid": 2.0, "linear": 3.0, "f2stnet": 1.0}[record["config"]["run"]["model"]["name"]]
    shelf = shelved(records)
    joined, x, _ = suite_tables(groups(suite, shelf), shelf)
    assert {row.name: row.cells[0].rank for row in joined.rows} == {"A": 1, "B": 2}
    assert {row.name: row.cells[1].rank for row in x.rows} == {"A": 2, "B": 0, "C, only on x": 1}


def test_tables_have_files_of_their_own_whatever_sets_are_called(tmp_path: Path) -> None:
    text = SUITE.replace('"tiny-city"', '"北京", "上海", "town a", "Town-A", "town a 2"')
    suite = read_suite(suite_file(tmp_path, text))
    keys = [table.key for table in tables_of(suite, suite.runs())]
    assert len(set(keys)) == len(keys) == 5
    assert all(key.isascii() for key in keys)
    assert keys[2:] == ["tiny-1-town-a", "tiny-1-town-a-2", "tiny-1-town-a-2-2"]


def test_blocks_and_suites_that_are_joined_have_files_of_their_own(tmp_path: Path) -> None:
    again = JOINED.replace('["x", "y"]', '["x", "y"]\nsettings = { training = { epochs = 3 } }')
    suite = read_suite(suite_file(tmp_path, JOINED + again))
    joined = [table.key for table in tables_of(suite, suite.runs()) if table.where == "all sets"]
    assert joined == ["tiny-side-by-side", "tiny-side-by-side-2"]
    ours = find_suite("accuracy")
    (first,) = [t.key for t in tables_of(ours, ours.runs(["pems08-part", "hzmetro-10min"])) if t.where == "all sets"]
    assert first == "accuracy-of-forecasts-side-by-side"
    titled = read_suite(suite_file(tmp_path, f'title = "{ours.title}"\n{JOINED}'))
    assert tables_of(titled, titled.runs())[0].key == f"tiny-{first}"


def test_a_heat_table_shows_words_as_they_are(tmp_path: Path) -> None:
    grid = 'table = "heat"\ngrid = { "partition.kind" = ["windows", "regime"], "partition.alpha_het" = [5.0, 10.0] }'
    text = SUITE.replace('figures = ["size"]', 'figures = ["heat"]').replace("central", "federated")
    text = text.replace("settings = { training = { epochs = 1 } }\n", "").replace(
        'model = "last-value"', 'model = "stid"'
    )
    suite = read_suite(suite_file(tmp_path, text.replace("guess = 2", grid)))
    (table,) = tables_of(suite, suite.runs())
    assert [row.name for row in table.rows] == ["kind = windows", "kind = regime"]
    assert [column.title for column in table.columns] == ["alpha_het = 5", "alpha_het = 10"]


def test_delta_is_the_composite_gain_of_the_same_seed() -> None:
    suite = find_suite("federated")
    runs = [run for run in suite.runs(["pems08-part"]) if dict(run.grid).get("partition.kind") == "regime"]
    (table,) = [
        table for table in tables_of(suite, runs) if table.measured and table.title.startswith("Federated methods")
    ]
    place = [column.title for column in table.columns].index("Δ")
    gains = {row.name: row.cells[place] for row in table.rows}
    assert gains["FedAvg"].figures == {0: 0.0, 1: 0.0, 2: 0.0}

    def scores(row: str) -> Scores:
        records = [make(run) for alpha in (5.0, 10.0) for run in runs
                   if run.row == row and run.seed == 1 and dict(run.grid)["partition.alpha_het"] == alpha]  # fmt: skip
        spread = records[1]["fairness"]
        table = [[record["test"][key] for key in ("rmse", "mae", "mape")] for record in records]
        return Scores(table, spread["max_rmse"], spread["std_rmse"])

    assert gains["FedProx"].figures[1] == pytest.approx(composite_gain(scores("FedProx"), scores("FedAvg")))
    assert gains["pooled"].rank == 0


def test_delta_waits_for_both_heterogeneities_and_for_fedavg() -> None:
    suite = find_suite("federated")
    runs = [
        run
        for run in suite.runs(["pems08-part"], [0])
        if dict(run.grid) == {"partition.kind": "regime", "partition.alpha_het": 10.0}
    ]
    (table,) = [
        table for table in tables_of(suite, runs) if table.measured and table.title.startswith("Federated methods")
    ]
    place = [column.title for column in table.columns].index("Δ")
    assert all(row.cells[place].text(2) == "not run" for row in table.rows)


def test_fedsage_stands_in_the_paper_s_table_with_the_reason_why_it_is_not_run() -> None:
    tables = tables_of(find_suite("federated"), [])
    (paper,) = [table for table in tables if table.where == "pems04, partition windows"]
    (row,) = [row for row in paper.rows if row.name == "FedSage"]
    assert row.cells[0].text(2).startswith("paper: 30.023, here: not run (needs PeMS04; it works only where edges")


@pytest.mark.parametrize(
    "name", ["accuracy", "federated", "ablation", "clients", "schedules", "sensitivity", "efficiency"]
)
def test_every_suite_has_a_table_of_its_records(name: str) -> None:
    suite = find_suite(name)
    data = "ring-307" if name == "efficiency" else "pems08-part"
    found = [table for table in tables_of(suite, suite.runs([data])) if table.measured]
    assert found
    cells = [cell for table in found for row in table.rows for cell in row.cells]
    assert all(cell.figures for cell in cells if not cell.paper or cell.records)
    assert len({table.key for table in found}) == len(found)
    if name == "sensitivity":
        assert [len(table.rows) for table in found] == [3, 4, 3, 5]


def test_own_data_is_shown_under_the_suites_it_was_run_with(tmp_path: Path) -> None:
    suite = read_suite(suite_file(tmp_path))
    shelf = shelved([make(run) for run in suite.runs(["mine"])])
    tables = suite_tables(groups(suite, shelf, own=["mine"]), shelf)
    assert [table.where for table in tables] == ["mine"]


@pytest.mark.parametrize("kind", ["errors", "rounds"])
def test_every_value_of_a_grid_has_a_row_of_its_own(kind: str, tmp_path: Path) -> None:
    """Not the last value's figures beside the first one's parameters."""
    text = SUITE.replace('figures = ["size"]\n', "")
    text = text.replace("guess = 2", f'table = "{kind}"\ngrid = {{ "window.input" = [6, 12] }}')
    suite = read_suite(suite_file(tmp_path, text))
    (table,) = tables_of(suite, suite.runs())
    assert [row.name for row in table.rows] == [
        f"{name}, input = {value}" for name in ("STID", "last value") for value in (6, 12)
    ]
    at = [column.title for column in table.columns].index("RMSE")
    for row, value in zip(table.rows, (6, 12, 6, 12), strict=True):
        runs = [run for run in suite.runs() if row.name.startswith(run.row) and dict(run.grid)["window.input"] == value]
        wanted = {run.seed: make(run)["test"]["rmse"] for run in runs}
        assert row.cells[at].figures == wanted


def test_a_grid_of_one_row_is_called_by_its_settings_alone(tmp_path: Path) -> None:
    text = SUITE.split('[[blocks.rows]]\nname = "last value"')[0]
    suite = read_suite(suite_file(tmp_path, text.replace("guess = 2", 'grid = { "window.input" = [6, 12] }')))
    assert [row.name for row in tables_of(suite, suite.runs())[0].rows] == ["input = 6", "input = 12"]


def test_of_two_versions_of_the_data_the_later_record_is_shown_and_it_is_said(tmp_path: Path) -> None:
    run = read_suite(suite_file(tmp_path)).runs()[0]
    old, new = make(run, 20), make(run, 30, digest="1" * 16) | {"finished": "2026-02-01T00:00:00Z"}
    shelf = shelved([new, old])
    found = shelf.find(run)
    assert found is not None
    assert found["key"] == new["key"]
    assert len(shelf.notes) == 1
