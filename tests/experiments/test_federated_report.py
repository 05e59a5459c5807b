"""Pages of federated runs: the figures of the folder, whoever took part, and only runs that belong together."""

import json
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from f2stnet.errors import InputError
from f2stnet.experiments.federated_comparison import comparison_blocks, comparison_lead, load_alike
from f2stnet.experiments.federated_report import federated_report
from f2stnet.experiments.federated_run import FederatedRun
from f2stnet.federated.settings import configure_federation
from f2stnet.federated.simulation import federate
from f2stnet.series import GraphSeries
from small import waves

SMALL: dict[str, Any] = {
    "window": {"input": 6, "horizon": 3},
    "model": {"width": 4, "blocks": 1},
    "training": {"batch": 32},
    "federation": {"rounds": 3},
}
Train = Callable[..., Path]


@pytest.fixture(scope="module")
def series() -> GraphSeries:
    return waves()


@pytest.fixture(scope="module")
def train(series: GraphSeries, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """A finished run's folder; the same settings give the same folder."""
    made: dict[str, Path] = {}

    def train(method: str = "ffa", kind: str = "regime", clients: int = 4, seed: int = 0, **federation: Any) -> Path:
        key = f"{method}-{kind}-{clients}-{seed}-{len(federation)}"
        if key not in made:
            sections = SMALL | {"partition": {"kind": kind, "clients": clients}}
            sections["federation"] = SMALL["federation"] | federation
            folder = tmp_path_factory.mktemp("run") / key
            federate(series, configure_federation(method, "stid", seed, {}, sections), folder)
            made[key] = folder
        return made[key]

    return train


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def tables(html: str) -> list[dict[str, list[str]]]:
    """The rows of every table by their first cell."""
    found = []
    for body in re.findall(r"<tbody>(.*?)</tbody>", html, re.S):
        rows = [[unescape(c) for c in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in body.split("</tr>")]
        found.append({row[0]: row[1:] for row in rows if row})
    return found


def figures(html: str) -> dict[str, dict[str, Any]]:
    """Every plot by its title."""
    pattern = r'<h3>([^<]*)</h3><script type="application/json">(.*?)</script>'
    return {unescape(title): json.loads(shown) for title, shown in re.findall(pattern, html, re.S)}


def spoil(folder: Path, copy: Path, change: Callable[[list[dict[str, Any]]], None]) -> Path:
    """A copy of a run with other lines in rounds.jsonl."""
    shutil.copytree(folder, copy)
    lines = [json.loads(line) for line in text(copy / "rounds.jsonl").splitlines()]
    change(lines)
    (copy / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return copy


def test_the_tables_show_the_figures_of_metrics_json(train: Train) -> None:
    folder = train()
    html, metrics = text(federated_report(folder)), json.loads(text(folder / "metrics.json"))
    summary, clients = tables(html)[:2]
    assert summary["RMSE, all clients"] == [
        f"{metrics[part]['rmse']:.2f}" if part == "global" else f"{metrics[part]['global']['rmse']:.2f}"
        for part in ("global", "validation")
    ]
    for key, name in {"max_rmse": "Max-RMSE", "std_rmse": "Std-RMSE", "worst5_mae": "worst-5 MAE"}.items():
        assert float(summary[name][0]) == pytest.approx(metrics["fairness"][key], abs=5e-3)
    assert list(clients) == ["client 0", "client 1", "client 2", "client 3"]
    for name, errors in metrics["clients"].items():
        assert clients[name][0] == f"{errors['rmse']:.2f}"
        assert clients[name][4] == f"{metrics['windows'][name]['train']}"


def test_the_lead_says_whose_test_windows_were_scored(train: Train, tmp_path: Path) -> None:
    assert "over the test windows of all 4 clients;" in text(federated_report(train()))
    copy = shutil.copytree(train(), tmp_path / "copy")
    metrics = json.loads(text(copy / "metrics.json"))
    del metrics["clients"]["client 1"]
    (copy / "metrics.json").write_text(json.dumps(metrics))
    html = text(federated_report(copy))
    assert "over the test windows of 3 of 4 clients; client 1 is missing;" in html
    assert "could not score the model: client 1." in html


def test_the_curves_are_those_of_rounds_jsonl(train: Train) -> None:
    run = FederatedRun.load(train())
    drawn = figures(text(federated_report(run.folder)))
    together, worst = drawn["Convergence"]["data"]
    for place, line in enumerate(run.rounds):
        assert together["x"][place] == place + 1
        assert together["y"][place] == pytest.approx(line["validation"]["global"]["rmse"], rel=1e-6)
        assert worst["y"][place] == pytest.approx(line["validation"]["fairness"]["max_rmse"], rel=1e-6)
        errors = line["validation"]["clients"]
        assert errors[worst["customdata"][place]]["rmse"] == pytest.approx(worst["y"][place], rel=1e-6)
        spread = drawn["Spread (Std-RMSE)"]["data"][0]["y"][place]
        assert spread == pytest.approx(line["validation"]["fairness"]["std_rmse"], rel=1e-6)
        assert drawn["λ"]["data"][0]["y"][place] == pytest.approx(0.03 + 0.005 * place)


def test_weights_are_drawn_against_the_shares_of_those_who_trained(train: Train) -> None:
    run = FederatedRun.load(train("ffa", fraction=0.5))
    relative = run.relative_weights()
    assert np.isfinite(relative).sum(axis=0).tolist() == [2, 2, 2]
    for place, line in enumerate(run.rounds):
        counts = {k: run.metrics["windows"][f"client {k}"]["train"] for k in line["participants"]}
        for client, count in counts.items():
            wanted = line["weights"][str(client)] / (count / sum(counts.values()))
            assert relative[client, place] == pytest.approx(wanted)
    html = text(federated_report(run.folder))
    drawn = figures(html)["Weight of each client"]["data"][0]
    for client in range(4):
        for place in range(3):
            shown, wanted = drawn["z"][client][place], 100 * (relative[client, place] - 1)
            assert shown is None if np.isnan(wanted) else shown == pytest.approx(wanted, rel=1e-5)
    assert [bar["name"] for bar in figures(html)["Who took part"]["data"]] == ["took part", "not drawn"]


def test_fedavg_weighs_by_shares_and_has_no_strength(train: Train) -> None:
    run = FederatedRun.load(train("fedavg"))
    np.testing.assert_allclose(run.relative_weights(), 1.0)
    html = text(federated_report(run.folder))
    assert "exactly its share" in html
    assert "There is no λ" in html
    assert not {"λ", "Weight of each client", "Who took part"} & set(figures(html))


def test_where_nothing_is_combined_nothing_weighs(train: Train) -> None:
    html = text(federated_report(train("local", "nodes")))
    assert "no weights are combined" in html
    assert {row[-1] for row in tables(html)[1].values()} == {"–"}
    assert "nothing to weigh" in text(federated_report(train("pooled")))


def test_who_was_left_out_is_named_with_the_reason(train: Train, tmp_path: Path) -> None:
    nasty = "its client app failed: <script>alert(1)</script>"

    def change(lines: list[dict[str, Any]]) -> None:
        lines[1]["participants"].remove(2)
        del lines[1]["weights"]["2"]
        lines[1]["refused"] = {"2": nasty}

    copy = spoil(train(), tmp_path / "left-out", change)
    html = text(federated_report(copy))
    assert nasty not in html
    assert f"client 2: {nasty} (round 2)" in unescape(html)
    cross = figures(html)["Weight of each client"]["data"][1]
    assert (cross["x"], cross["y"]) == ([2], ["client 2"])
    clients = tables(html)[1]
    assert clients["client 2"][5:7] == ["2", "1"]
    assert clients["client 1"][5:7] == ["3", "0"]


def test_the_worst_client_of_each_round_is_named(train: Train, tmp_path: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        for line, worst in zip(lines, (3, 1, 2), strict=True):
            line["validation"]["clients"][f"client {worst}"]["rmse"] = 1e3

    html = text(federated_report(spoil(train(), tmp_path / "worst", change)))
    assert figures(html)["Convergence"]["data"][1]["customdata"] == ["client 3", "client 1", "client 2"]


def test_a_skipped_round_is_a_gap_and_said(train: Train, tmp_path: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        del lines[1]["validation"]
        lines[1] |= {"skipped": True, "weights": {}, "participants": [], "refused": {"0": "no answer in time"}}

    html = text(federated_report(spoil(train(), tmp_path / "skipped", change)))
    values = figures(html)["Convergence"]["data"][0]["y"]
    assert [value is None for value in values] == [False, True, False]
    assert "Round 2 had too few usable answers" in html


def test_the_picture_of_the_partition_needs_the_runs_own_series(train: Train, series: GraphSeries) -> None:
    folder = train()
    assert "Who holds what" not in text(federated_report(folder))
    html = text(federated_report(folder, series))
    assert "Who holds what" in html
    metrics = json.loads(text(folder / "metrics.json"))
    shown = next(rows for rows in tables(html) if set(rows) == {"0", "1", "2", "3"})
    assert [rows[0] for rows in shown.values()] == [f"{parts['train']}" for parts in metrics["windows"].values()]
    with pytest.raises(InputError, match="other data"):
        federated_report(folder, waves(seed=5))


@pytest.mark.parametrize("method", ["ffa", "fedavg"])
def test_every_figure_is_what_plotly_takes(train: Train, series: GraphSeries, method: str) -> None:
    html = text(federated_report(train(method), series))
    texts = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    assert len(texts) >= 6
    for shown in texts:
        go.Figure(json.loads(re.sub(r'"(var|faint)\(--\w+\)"', '"#123456"', shown)))


def test_one_client_has_no_spread_and_still_a_page(train: Train) -> None:
    html = text(federated_report(train("fedavg", "windows", clients=1)))
    assert tables(html)[0]["Std-RMSE"] == ["–", "–"]
    assert "Spread (Std-RMSE): there is nothing to draw" in html


def test_equal_local_steps_are_said_and_their_absence_is_not(train: Train) -> None:
    assert "1 of 3 steps each" in text(federated_report(train("fedavg", "windows", clients=2, seed=5, local_steps=3)))
    assert "steps each" not in text(federated_report(train("fedavg", "windows", clients=1)))


def test_many_clients_are_folded_away_and_each_has_a_row_of_weights(train: Train) -> None:
    html = text(federated_report(train("ffa", "windows", clients=14)))
    assert "<summary>Each of the 14 clients</summary>" in html
    assert len(figures(html)["Weight of each client"]["data"][0]["y"]) == 14


def test_runs_that_are_not_finished_or_not_federated_are_refused(train: Train, tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished"
    shutil.copytree(train(), unfinished)
    (unfinished / "metrics.json").unlink()
    with pytest.raises(InputError, match="not finished"):
        federated_report(unfinished)
    (unfinished / "federation.toml").unlink()
    with pytest.raises(InputError, match="not the folder of a federated run"):
        federated_report(unfinished)


def test_a_comparison_has_a_line_a_run_and_a_row(train: Train) -> None:
    folders = {"fedavg": train("fedavg"), "ffa": train("ffa")}
    html = "".join(comparison_blocks(load_alike(list(folders.values()))))
    rows = tables(html)[0]
    for name, folder in folders.items():
        metrics = json.loads(text(folder / "metrics.json"))
        assert rows[name][0] == f"{metrics['global']['rmse']:.2f}"
        assert rows[name][-2] == f"{metrics['best_round']}"
    for title in ("All clients together", "The worst client", "Worst-5 MAE", "Spread (Std-RMSE)"):
        assert [line["name"] for line in figures(html)[title]["data"]] == ["fedavg", "ffa"]
    assert "Without λ: fedavg." in html


def test_the_best_are_marked_where_they_read_differently(train: Train, tmp_path: Path) -> None:
    shutil.copytree(train("fedavg"), tmp_path / "other")
    metrics = json.loads(text(tmp_path / "other" / "metrics.json"))
    metrics["global"]["rmse"] -= 1
    metrics["global"]["mae"] += 1
    metrics["fairness"]["jain"] -= 0.1
    metrics["fairness"]["max_rmse"] += 1e-9
    metrics["clients"]["client 2"]["rmse"] -= 1
    (tmp_path / "other" / "metrics.json").write_text(json.dumps(metrics))
    html = "".join(comparison_blocks(load_alike([train("fedavg"), tmp_path / "other"])))
    rows = [re.findall(r"<td class=\"([^\"]*)\">", row) for row in html.split("<tr>") if "<td" in row]
    marked = [[place for place, kind in enumerate(row) if "strong" in kind] for row in rows]
    assert marked[:2] == [[2, 8], [1]]  # MAE and Jain's index; RMSE
    assert marked[2:] == [[], [], [2], []]  # clients


def test_the_words_of_a_comparison_follow_the_figures(train: Train) -> None:
    runs = load_alike([train("fedavg"), train("ffa")])
    runs["fedavg"].metrics["global"]["rmse"] = 10.0
    for rmse, words in ((9.0, "10.0 % lower"), (12.5, "25.0 % higher"), (10.0, "the same")):
        runs["ffa"].metrics["global"]["rmse"] = rmse
        assert f"ffa against fedavg: RMSE over all clients {words}," in comparison_lead(runs)


def test_only_runs_of_the_same_clients_are_compared(train: Train) -> None:
    for other in (train("fedavg", "windows"), train("fedavg", seed=1), train("fedavg", clients=5)):
        with pytest.raises(InputError, match="its clients hold other data"):
            load_alike([train("ffa"), other])
    with pytest.raises(InputError, match="at least one run"):
        load_alike([])


def test_two_runs_of_one_method_are_told_apart_by_folder(train: Train, tmp_path: Path) -> None:
    shutil.copytree(train("ffa"), tmp_path / "again")
    assert list(load_alike([train("ffa"), tmp_path / "again"])) == [train("ffa").name, "again"]
