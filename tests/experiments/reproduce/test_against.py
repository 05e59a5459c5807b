"""A row against other rows, seed by seed."""

import pytest
from made_up import make
from test_result_tables import shelved, tables_of

from f2stnet.experiments.reproduce.against import against, gap_cell
from f2stnet.experiments.reproduce.shelf import groups
from f2stnet.experiments.reproduce.suite import Run, Suite, find_suite
from f2stnet.experiments.reproduce.tables import Cell, Table
from f2stnet.federated.fairness import gap

RECOMMENDED, FALSE = "Recommended compositions", "One client reports a thousand times its loss"
BASE = "FedAvg + server momentum"
POOLED = ("pooled, batches of 64", "pooled, batches of 16, 30 rounds")


def _cell(*values: float, seeds: int = 3) -> Cell:
    return Cell(dict(enumerate(values)), tuple(range(seeds)))


def _block(title: str) -> tuple[Suite, list[Run]]:
    suite = find_suite("federated")
    number = [block.title for block in suite.blocks].index(title)
    return suite, [run for run in suite.runs() if run.block == number]


def _table(title: str, runs: list[Run]) -> Table:
    (table,) = [one for one in tables_of(find_suite("federated"), runs) if one.title.startswith(title)]
    return table


def test_differences_are_of_the_same_seed_in_percent_or_as_they_are() -> None:
    ours, base = _cell(11.0, 12.0, 13.0), _cell(10.0, 10.0)
    assert against(ours, base).figures == pytest.approx({0: 10.0, 1: 20.0})
    assert against(ours, base, percent=False).figures == {0: 1.0, 1: 2.0}
    assert against(ours, Cell()).figures == {}
    assert against(_cell(1.0), _cell(0.0)).figures == {}  # no percent of nothing
    assert against(_cell(1.0), _cell(0.0), percent=False).figures == {0: 1.0}


def test_a_difference_is_shown_with_its_interval_and_marked_where_it_may_be_chance() -> None:
    sure = against(_cell(9.0, 18.0, 26.9), _cell(10.0, 20.0, 30.0))
    assert sure.text(2) == "-10.11 [-10.59, -9.63]"
    chance = against(_cell(9.0, 21.0, 30.0), _cell(10.0, 20.0, 30.0))
    assert chance.text(1).endswith(" ≈")
    assert chance.text(1).startswith("-1.7 [-")
    assert against(_cell(1.1, 2.0), _cell(1.0, 2.0)).text(1) == "+5.0 (2 of 3 seeds)"
    assert against(_cell(1.1, seeds=1), _cell(1.0, seeds=1)).text(1) == "+10.0"
    assert against(_cell(1.0, 2.0, 3.0), _cell(1.0, 2.0, 3.0)).text(2) == "0"


def test_the_gap_is_to_the_same_seed_s_pooled_and_local_runs_and_needs_them_all() -> None:
    suite, runs = _block(RECOMMENDED)
    left_out = [run for run in runs if not (run.method == "local" and run.seed == 2)]
    shelf = shelved([make(run) for run in left_out])
    (group,) = [one for one in groups(suite, shelf) if one.block.title == RECOMMENDED]
    found = gap_cell(group, shelf, BASE)
    assert set(found.figures) == {0, 1}
    ours, *ends = (
        next(make(run)["clients"] for run in runs if run.row == row and run.seed == 1)
        for row in (BASE, *POOLED, "local only")
    )
    assert found.figures[1] == pytest.approx(gap(ours, *ends)["mean_gap"])
    assert len(found.records) == 3


def test_compositions_are_held_against_pooled_and_against_fedavg_with_the_same_optimiser() -> None:
    table = _table(RECOMMENDED, _block(RECOMMENDED)[1])
    heads = [column.name for column in table.columns]
    assert heads[:5] == ["RMSE", "MAE", "Max-RMSE", "Std-RMSE", "mean gap to a client's own best, %"]
    assert heads[5:] == [
        *(f"against {row}: RMSE, %" for row in POOLED),
        *(f"against {BASE}: {what}" for what in ("RMSE, %", "Max-RMSE, %", "Std-RMSE, %", "mean gap, points")),
    ]
    rows = {row.name: row for row in table.rows}
    assert [row.reference for row in table.rows] == [True] * 3 + [False] * 9
    assert table.rows[3].name == "recommended: FFA-robust, momentum, equal steps, FedProc's objective"
    assert [cell.text(2) for cell in rows[BASE].cells[7:]] == ["0"] * 4
    fair = rows["AFL + server momentum, equal steps"].cells
    for place, base in enumerate((*POOLED, BASE), start=5):
        other = rows[base].cells[0].figures[1]
        assert fair[place].figures[1] == pytest.approx(100 * (fair[0].figures[1] / other - 1))
    assert fair[10].figures[1] == pytest.approx(fair[4].figures[1] - rows[BASE].cells[4].figures[1])
    assert all(cell.rank == 0 for row in table.rows for cell in row.cells[5:])


def test_all_compositions_have_the_same_rounds_and_clients_and_batches_or_steps() -> None:
    from f2stnet.experiments.reproduce.keys import configuration

    for run in _block(RECOMMENDED)[1]:
        config = configuration(run)
        pooled = run.method == "pooled"
        small = run.row == POOLED[1]
        assert config["federation"]["federation"]["rounds"] == (30 if small else 110)
        steps = 27 if "equal steps" in run.row else 0
        assert config["federation"]["federation"]["local_steps"] == steps
        assert config["run"]["training"]["batch"] == (64 if pooled and not small else 16)
        assert config["run"]["model"]["dropout"] == (0.2 if pooled else 0.1)
        assert config["run"]["window"]["days"] == 0
        kept = {key: config["federation"]["partition"][key] for key in ("kind", "clients", "alpha_het")}
        assert kept == {"kind": "regime", "clients": 10, "alpha_het": 10.0}


def test_false_losses_are_held_against_the_honest_run_of_the_same_seed() -> None:
    runs = _block(FALSE)[1]
    table = _table(FALSE, runs)
    assert [row.name.split()[0] for row in table.rows] == ["FFA", "FFA-robust", "FFA-robust"]
    honest, false, change = table.rows[0].cells
    assert honest.figures[2] != false.figures[2]
    assert change.figures[2] == pytest.approx(100 * (false.figures[2] / honest.figures[2] - 1))
    assert change.rank == 0
    truthful = [run for run in runs if dict(run.grid)["federation.false_loss"] == 1.0]
    titles = [one.title for one in tables_of(find_suite("federated"), truthful)]
    assert not any(title.startswith(FALSE) for title in titles)  # those belong to the methods' table


def test_methods_are_held_against_fedavg_at_the_highest_heterogeneity() -> None:
    suite = find_suite("federated")
    runs = [run for run in suite.runs(["synthetic"]) if dict(run.grid)["partition.kind"] == "regime"]
    (table,) = [one for one in tables_of(suite, runs) if one.measured]
    last = table.columns[-1]
    assert (last.name, last.better) == ("against FedAvg, α_het = 10: RMSE, %", "none")
    rows = {row.name: row.cells for row in table.rows}
    strong = [column.name for column in table.columns].index("α_het = 10: RMSE")
    ours, base = rows["MOON"][strong].figures, rows["FedAvg"][strong].figures
    assert rows["MOON"][-1].figures == pytest.approx({seed: 100 * (ours[seed] / base[seed] - 1) for seed in (0, 1, 2)})
    assert rows["FedAvg"][-1].text(2) == "0"
