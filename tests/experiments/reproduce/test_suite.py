"""Suites: what a TOML file declares becomes runs, in the order of their value."""

from pathlib import Path
from typing import get_args

import pytest
from tiny import SUITE, suite_file

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.keys import configuration
from f2stnet.experiments.reproduce.layouts import LAYOUTS
from f2stnet.experiments.reproduce.paper_values import whole_table
from f2stnet.experiments.reproduce.suite import Suite, TableKind, find_suite, read_suite, suite_names

OURS = ("pems08-part", "synthetic", "hzmetro-10min", "china-pm25-daily")


def test_the_issue_s_suites_are_there() -> None:
    wanted = {"accuracy", "federated", "ablation", "sensitivity", "clients", "efficiency", "schedules"}
    assert wanted <= set(suite_names())


@pytest.mark.parametrize("name", suite_names())
def test_every_run_of_our_suites_can_be_configured(name: str) -> None:
    runs = find_suite(name).runs()
    assert runs
    for run in runs:
        assert configuration(run)["kind"] == run.kind


def test_every_row_of_the_paper_s_tables_has_a_run() -> None:
    assert set(whole_table("accuracy", "pems04")) <= _names(find_suite("accuracy"))
    assert set(whole_table("federated", "pems04")) <= _names(find_suite("federated"))
    assert set(whole_table("clients", "pems04")) <= _names(find_suite("clients"))
    assert set(whole_table("efficiency", "ring-307")) <= _names(find_suite("efficiency"))


def _names(suite: Suite) -> set[str]:
    return {row.paper or row.name for block in suite.blocks for row in block.rows}


def test_federated_has_three_seeds_on_two_sets_and_one_on_the_others() -> None:
    runs = find_suite("federated").runs()
    for data, seeds in zip(OURS, ({0, 1, 2}, {0, 1, 2}, {0}, {0}), strict=True):
        assert {run.seed for run in runs if run.data == data} == seeds
    nodes = {run.method for run in runs if dict(run.grid).get("partition.kind") == "nodes"}
    assert nodes == {"fedavg", "ffa", "ffa-robust+fedavgm", "fedsage"}


def test_the_synthetic_city_has_all_methods_and_fewer_rounds() -> None:
    runs = find_suite("federated").runs(["synthetic"])
    everybody = {run.method for run in find_suite("federated").runs(["pems08-part"]) if run.block == 0}
    for kind in ("regime", "windows"):
        for alpha in (5.0, 10.0):
            grid = {"partition.kind": kind, "partition.alpha_het": alpha}
            assert {run.method for run in runs if dict(run.grid) == grid} == everybody
    assert {configuration(run)["federation"]["federation"]["rounds"] for run in runs} == {30}
    assert len(runs) == len(everybody) * 2 * 2 * 3


def test_any_suite_can_be_run_on_the_synthetic_city_when_asked() -> None:
    """The federated suite names it; that must not take it from the others, as it would a set that has to be had."""
    suite = find_suite("accuracy")
    assert len(suite.runs(["synthetic"])) == len(suite.runs(["mine"])) > 0
    assert "synthetic" not in {run.data for run in suite.runs()}


def test_a_row_s_settings_go_before_those_for_a_data_set(tmp_path: Path) -> None:
    text = SUITE.replace(
        "guess = 2", "guess = 2\nsettings_for = { tiny-city = { model = { width = 9 }, training = { batch = 3 } } }"
    )
    run = read_suite(suite_file(tmp_path, text)).runs()[0]
    assert (run.sections["model"]["width"], run.sections["training"]) == (4, {"epochs": 1, "batch": 3})
    other = read_suite(suite_file(tmp_path, text)).runs(["mine"])[0]
    assert other.sections["training"] == {"epochs": 1}


def test_runs_come_row_by_row_so_that_an_interruption_leaves_whole_rows(tmp_path: Path) -> None:
    runs = read_suite(suite_file(tmp_path)).runs()
    assert [(run.row, run.seed) for run in runs] == [("STID", 0), ("STID", 1), ("last value", 0)]


def test_the_order_is_the_suite_s(tmp_path: Path) -> None:
    text = SUITE.replace("guess = 2", 'guess = 2\norder = ["seed", "row", "data", "grid"]')
    runs = read_suite(suite_file(tmp_path, text)).runs()
    assert [(run.row, run.seed) for run in runs] == [("STID", 0), ("last value", 0), ("STID", 1)]


def test_a_grid_is_every_combination_and_its_settings_reach_the_run(tmp_path: Path) -> None:
    text = SUITE.replace("guess = 2", 'guess = 2\ngrid = { "window.input" = [6, 12], "training.batch" = [8, 16] }')
    runs = [run for run in read_suite(suite_file(tmp_path, text)).runs() if run.row == "STID" and run.seed == 0]
    found = [
        (configuration(run)["run"]["window"]["input"], configuration(run)["run"]["training"]["batch"]) for run in runs
    ]
    assert found == [(6, 8), (6, 16), (12, 8), (12, 16)]
    assert all(configuration(run)["run"]["training"]["epochs"] == 1 for run in runs)


def test_data_and_seeds_narrow_and_own_data_is_run_as_every_block_says(tmp_path: Path) -> None:
    suite = read_suite(suite_file(tmp_path))
    assert {run.seed for run in suite.runs(seeds=[1])} == {1}
    assert suite.runs(["pems04"]) == []  # another suite's, not this one's
    assert {run.data for run in suite.runs(["mine"])} == {"mine"}
    assert len(suite.runs(["mine", "tiny-city"])) == 2 * len(suite.runs())


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        ("guess = 2", "gues = 2", "unknown key 'blocks.1.gues'; did you mean 'guess'?"),
        ('kind = "central"', 'kind = "centre"', "blocks.1.kind = 'centre'"),
        ('title = "Tiny"', 'titel = "Tiny"', "unknown key 'titel'; did you mean 'title'?"),
        ("guess = 2", 'order = ["row"]', "expected row, data, grid, seed in some order"),
        ('data = ["tiny-city"]', "data = []", "data is missing"),
        ("guess = 2", "grid = { width = [1] }", "grid.width: expected section.key"),
        ("guess = 2", "settings = 3", "not valid TOML"),
        ("guess = 2", "settings_for = 3", "settings_for = 3: expected a table"),
        ("guess = 2", 'against = "STDI"', "against = 'STDI': no row is called that; did you mean 'STID'?"),
        # Before anything is run: a table or figure that cannot be shown would be noticed after hours of runs.
        ("guess = 2", 'table = "eror"', "blocks.1.table = 'eror': expected one of errors, federated"),
        ('figures = ["size"]', 'figures = ["sizes"]', "figures: 'sizes'; did you mean 'size'?"),
        ("guess = 2", "settings_for = { tiny-city = 3 }", "settings_for.tiny-city = 3: expected a table"),
        ("{ training = { epochs = 1 } }", "{ training = 3 }", "blocks.1.settings.training = 3: expected a table"),
        ("guess = 2", 'seeds_for = { tiny-city = "all" }', "seeds_for.tiny-city = 'all': expected int"),
        (
            "guess = 2",
            "seeds_for = { tinycity = 0 }",
            "seeds_for: 'tinycity' is no data set of the block; did you mean",
        ),
        ("guess = 2", "settings_for = { tinycity = {} }", "settings_for: 'tinycity' is no data set of the block"),
        (
            'name = "last value"',
            'name = "last value"\nseeds_for = { city = 0 }',
            "blocks.1.rows.2.seeds_for: 'city' is no data set",
        ),
        ('name = "last value"', 'name = "STID"', "rows: two are called 'STID'"),
        ("guess = 2", 'table = "heat"', "table = 'heat': expected a grid of two settings"),
        ("guess = 2", 'table = "false-losses"', "table = 'false-losses': shows the grid federation.false_loss"),
        ('figures = ["size"]', 'figures = ["cost"]\ngrid = { "model.width" = [4] }', "figures: 'cost' shows models"),
        ('title = "Tiny"', 'rank = "first"', "rank = 'first': expected int"),
        ("[[blocks]]", "[blocks]", "blocks: expected tables, each under [[blocks]]"),
        ('name = "last value"\n', "", "blocks.1: rows.2: name is missing"),
        ('data = ["tiny-city"]\n', "", "blocks.1: data is missing"),
        # A run is filed under its settings as JSON, and a plan adds guesses up.
        ("guess = 2", "guess = inf", "blocks.1.guess = inf: expected a finite number"),
        ("epochs = 1", "clip = nan", "blocks.1.settings.training.clip = nan: expected a finite number"),
        ("width = 4", "width = inf", "blocks.1.rows.1.settings.model.width = inf: expected a finite"),
        ("guess = 2", 'grid = { "training.clip" = [1.0, inf] }', "blocks.1.grid.training.clip = inf: expected a"),
        ("guess = 2", 'table = "rounds"', "figures: 'size' cannot be drawn of table = 'rounds', expected errors"),
        ("guess = 2", 'table = "compositions"', "figures: 'size' cannot be drawn of table = 'compositions'"),
        (
            "guess = 2",
            'table = "heat"\ngrid = { "model.width" = [4, 8], "training.batch" = [8, 16] }',
            "figures: 'size' cannot be drawn of table = 'heat', expected errors",
        ),
        (
            'figures = ["size"]',
            'figures = ["worst"]',
            "'worst' cannot be drawn of table = 'errors', expected federated or",
        ),
        (
            'figures = ["size"]',
            'figures = ["curves"]',
            "figures: 'curves' shows rounds or clients; central runs have none",
        ),
    ],
)
def test_a_wrong_suite_is_one_line_that_names_the_file_and_the_key(
    tmp_path: Path, wrong: str, right: str, words: str
) -> None:
    path = suite_file(tmp_path, SUITE.replace(wrong, right))
    with pytest.raises(InputError) as error:
        read_suite(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_block_needs_no_data_where_each_of_its_rows_has_its_own(tmp_path: Path) -> None:
    text = SUITE.replace('data = ["tiny-city"]\n', "").replace("name =", 'data = ["town"]\nname =')
    assert read_suite(suite_file(tmp_path, text)).data == ["town"]


def test_what_is_no_list_of_tables_is_said_to_be_none(tmp_path: Path) -> None:
    for text, words in (
        ("blocks = 3", "blocks: expected tables, each under [[blocks]]"),
        ('[[blocks]]\ndata = ["tiny-city"]\nrows = [3]', "blocks.1.rows: expected tables, each under [[blocks.rows]]"),
    ):
        with pytest.raises(InputError) as error:
            read_suite(suite_file(tmp_path, text))
        assert words in str(error.value)


def test_one_seed_or_one_value_needs_no_brackets(tmp_path: Path) -> None:
    text = SUITE.replace("guess = 2", 'seeds_for = { tiny-city = 0 }\ngrid = { "window.input" = 6 }')
    runs = read_suite(suite_file(tmp_path, text)).runs()
    assert [(run.row, run.seed, run.sections["window"]) for run in runs] == [
        ("STID", 0, {"input": 6}),
        ("last value", 0, {"input": 6}),
    ]


def test_every_table_that_a_suite_can_name_has_a_layout() -> None:
    assert set(LAYOUTS) == set(get_args(TableKind))


def test_a_wrong_setting_is_named_with_its_row(tmp_path: Path) -> None:
    run = read_suite(suite_file(tmp_path, SUITE.replace("width = 4", "widht = 4"))).runs()[0]
    with pytest.raises(InputError, match=r"suite 'tiny', row 'STID': unknown key 'model.widht'; did you mean 'width'"):
        configuration(run)


def test_an_unknown_suite_is_told_its_neighbour() -> None:
    with pytest.raises(InputError, match="unknown suite 'acuracy'; did you mean 'accuracy'"):
        find_suite("acuracy")
