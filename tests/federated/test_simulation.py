"""Whole federations on a small series, in one process."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from f2stnet.errors import InputError
from f2stnet.federated import client as client_side
from f2stnet.federated.declared import MESSAGES
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.methods import compose, methods
from f2stnet.federated.partition import Holding, partition
from f2stnet.federated.settings import Federation, configure_federation
from f2stnet.federated.simulation import Simulated, federate
from f2stnet.series import GraphSeries
from f2stnet.training import Run
from f2stnet.training.evaluate import evaluate
from f2stnet.training.folder import RunFolder
from small import waves

SMALL = {"model": {"width": 8, "frequencies": 2, "state": 1, "blocks": 1}, "training": {"batch": 16}}


def settings(method: str = "fedavg", kind: str = "windows", clients: int = 3, **sections: Any) -> Federation:
    federation = {"rounds": 2} | sections.pop("federation", {})
    parts = {"partition": {"kind": kind, "clients": clients, "alpha_het": 2.0}, "federation": federation}
    return configure_federation(method, "f2stnet", 0, {}, SMALL | parts | sections)


def clients_of(federation: Federation, root: Path) -> Simulated:
    assert federation.partition is not None
    pooled = federation.compose().pooled
    return Simulated(waves(), federation.run.window, federation.partition, federation.run.seed, root, pooled)


def holdings_of(series: GraphSeries, federation: Federation) -> list[Holding]:
    assert federation.partition is not None
    return partition(series, federation.run.window, federation.partition, federation.run.seed)


def kind_for(method: str) -> str:
    return compose(method).only_under or "windows"


def test_a_federation_leaves_what_it_promises(tmp_path: Path) -> None:
    series = waves()
    metrics = federate(series, settings("ffa"), tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert stored == metrics
    assert {"global", "clients", "fairness"} <= set(metrics)
    assert {"max_rmse", "std_rmse", "worst5_mae", "mae_std"} <= set(metrics["fairness"])
    assert len(metrics["clients"]) == 3
    assert metrics["partition"]["kind"] == "windows"
    lines = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2]
    assert lines[0]["lambda"] == 0.03
    assert sum(lines[0]["weights"].values()) == pytest.approx(1)
    assert FederationFolder(tmp_path / "run").federation().to_table() == settings("ffa").to_table()
    run = Run.load(tmp_path / "run")  # an ordinary run for whoever wants forecasts
    assert np.isfinite(run.predict(series, np.array([200]))).all()


def test_global_pools_all_clients_elements(tmp_path: Path) -> None:
    series, federation = waves(), settings(window={"days": 0})  # a client looks up earlier days among its own alone
    metrics = federate(series, federation, tmp_path / "run")
    run, sizes = Run.load(tmp_path / "run"), metrics["windows"]
    holdings = holdings_of(series, federation)
    every = np.concatenate([holding.parts.test for holding in holdings])
    assert [len(h.parts.test) for h in holdings] == [sizes[f"client {k}"]["test"] for k in range(3)]
    assert run.evaluate(series, np.sort(every)).figures()["rmse"] == pytest.approx(metrics["global"]["rmse"], rel=1e-6)
    own = run.evaluate(series, holdings[1].parts.test).figures()
    assert own["mae"] == pytest.approx(metrics["clients"]["client 1"]["mae"], rel=1e-6)


def test_a_client_is_scored_with_the_earlier_days_that_are_its_own(tmp_path: Path) -> None:
    series, federation = waves(), settings(window={"days": 7})
    metrics = federate(series, federation, tmp_path / "run")
    run, window, parts = Run.load(tmp_path / "run"), federation.run.window, holdings_of(series, federation)[1].parts
    own = np.zeros(len(series), dtype=bool)
    for origin in (*parts.train, *parts.validation, *parts.test):
        own[origin - window.input : origin + window.horizon] = True
    assert not own.all()
    windows = run.windows(series)
    windows.hold_steps(own)
    found = evaluate(run.model, windows, parts.test).figures()["mae"]
    assert found == pytest.approx(metrics["clients"]["client 1"]["mae"], rel=1e-6)
    assert found != pytest.approx(run.evaluate(series, parts.test).figures()["mae"], rel=1e-6)


@pytest.mark.parametrize("kind", ["windows", "regime", "nodes"])
def test_every_partition_trains(tmp_path: Path, kind: str) -> None:
    metrics = federate(waves(missing_share=0.1), settings("ffa-robust", kind), tmp_path / "run")
    assert metrics["refused"] == 0
    assert np.isfinite(metrics["global"]["rmse"])


@pytest.mark.parametrize("method", ["moon", "ditto", "ffa-robust+fedopt", "fedproto", "afl", "local", "pooled", "fggp"])
def test_a_killed_server_resumes_to_the_very_same_weights(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 in the middle of round 3, after its first client has answered: nothing after the checkpoint of round 2
    has been saved, but that client's own state is ahead already."""
    series, federation = waves(), settings(method, kind_for(method), federation={"rounds": 4, "fraction": 0.7})
    whole = federate(series, federation, tmp_path / "whole")

    class Killed(BaseException):
        pass

    answered = 0
    call = InProcessGrid._call

    def dies(grid: InProcessGrid, message: Message) -> Message:
        nonlocal answered
        config = message.content.get("config", {})
        if message.metadata.message_type == "train" and config["server-round"] == 3:
            if answered:
                raise Killed
            answered += 1
            if method == "pooled":
                call(grid, message)
                raise Killed
        return call(grid, message)

    monkeypatch.setattr(InProcessGrid, "_call", dies)
    with pytest.raises(Killed):
        federate(series, federation, tmp_path / "run")
    monkeypatch.setattr(InProcessGrid, "_call", call)
    assert not (tmp_path / "run" / "metrics.json").exists()
    again = federate(series, FederationFolder(tmp_path / "run").federation(), tmp_path / "run", resume=True)
    assert again["global"] == whole["global"]
    assert again["clients"] == whole["clients"]
    one, _ = FederationFolder(tmp_path / "whole").saved() or ({}, None)
    two, _ = FederationFolder(tmp_path / "run").saved() or ({}, None)
    assert set(one) == set(two)
    assert all(torch.equal(one[name], two[name]) for name in one)
    rounds = FederationFolder(tmp_path / "run").rounds()
    assert [line["round"] for line in rounds] == [1, 2, 3, 4]


@pytest.mark.parametrize("method", ["fedavg", "moon", "fggp", "fedsage", "ditto", "qfedavg"])
def test_clients_side_by_side_train_what_they_train_one_after_another(tmp_path: Path, method: str) -> None:
    """Dropout, shuffles and what objectives draw: all of it must come from (seed, round, client)."""
    before, found = torch.get_num_threads(), []
    try:
        for cores in (1, 2):
            torch.set_num_threads(cores)
            folder = tmp_path / str(cores)
            federate(waves(), settings(method, kind_for(method), clients=4, federation={"rounds": 3}), folder)
            found.append((FederationFolder(folder).saved() or ({}, None))[0])
    finally:
        torch.set_num_threads(before)
    one, two = found
    assert set(one) == set(two)
    for name, array in one.items():
        assert torch.allclose(array, two[name], rtol=1e-4, atol=1e-6), name


def test_matrix_products_have_one_precision_while_clients_are_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the whole process's: a client that put back another while a second is at work would change its numbers."""
    seen: set[str] = set()
    train = client_side.Clients.train

    def watched(self: Any, number: int, content: Any) -> Any:
        seen.add(torch.get_float32_matmul_precision())
        reply = train(self, number, content)
        seen.add(torch.get_float32_matmul_precision())
        return reply

    monkeypatch.setattr(client_side.Clients, "train", watched)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        federate(waves(), settings(training=SMALL["training"] | {"device": "cpu"}), tmp_path / "run")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == {"highest"}


def spoil(monkeypatch: pytest.MonkeyPatch, how: Any, client: int = 1) -> None:
    """Client 1's train answers come back spoilt."""
    train = client_side.Clients.train

    def spoilt(self: Any, number: int, content: Any) -> Any:
        reply = train(self, number, content)
        return how(reply) if number == client else reply

    monkeypatch.setattr(client_side.Clients, "train", spoilt)


def _raise(reply: Any) -> Any:
    raise RuntimeError("disk full")


def _metric(key: str, value: float) -> Any:
    def change(reply: Any) -> Any:
        reply["metrics"][key] = value
        return reply

    return change


def _nan(reply: Any) -> Any:
    from f2stnet.federated.records import from_record, to_record

    arrays = from_record(reply["arrays"])
    name = next(iter(arrays))
    reply["arrays"] = to_record(arrays | {name: torch.full_like(arrays[name], torch.nan)})
    return reply


def _typed(dtype: torch.dtype) -> Any:
    def change(reply: Any) -> Any:
        from f2stnet.federated.records import from_record, to_record

        reply["arrays"] = to_record({name: array.to(dtype) for name, array in from_record(reply["arrays"]).items()})
        return reply

    return change


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (_raise, "RuntimeError: disk full"),
        (_nan, "holds NaN"),
        (_typed(torch.bool), "is bool, expected float32"),
        (_typed(torch.complex64), "is complex64, expected float32"),
        (_metric("loss", 1e30), "loss"),
        (_metric("num-examples", -1), "num-examples"),
    ],
)
def test_one_bad_client_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Any, why: str
) -> None:
    spoil(monkeypatch, how)
    metrics = federate(waves(), settings("ffa"), tmp_path / "run")
    line = FederationFolder(tmp_path / "run").rounds()[0]
    assert line["participants"] == [0, 2]
    assert why in line["refused"]["1"]
    assert metrics["refused"] == 2
    assert np.isfinite(metrics["global"]["rmse"])


def test_a_slow_client_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    def slow(reply: Any) -> Any:
        time.sleep(3.1)
        return reply

    spoil(monkeypatch, slow)
    federate(waves(), settings(federation={"rounds": 1, "timeout": 3.0}), tmp_path / "run")
    assert FederationFolder(tmp_path / "run").rounds()[0]["refused"] == {"1": "no answer in time"}


def test_too_few_answers_skip_a_round_and_end_the_run_with_its_best_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies_after_one(reply: Any) -> Any:
        raise RuntimeError("gone")

    train = client_side.Clients.train

    def failing(self: Any, number: int, content: Any) -> Any:
        if content["config"]["server-round"] > 1:
            raise RuntimeError("gone")
        return train(self, number, content)

    monkeypatch.setattr(client_side.Clients, "train", failing)
    metrics = federate(waves(), settings(federation={"rounds": 9, "minimum": 2, "skips": 2}), tmp_path / "run")
    assert metrics["rounds"] == 3
    assert metrics["best_round"] == 1
    assert "too few usable answers" in metrics["ended"]
    assert [line["skipped"] for line in FederationFolder(tmp_path / "run").rounds()] == [False, True, True]
    assert Run.load(tmp_path / "run").metrics["global"] == metrics["global"]


@pytest.mark.parametrize("best", ["mean", "worst"])
def test_a_client_that_scores_no_number_does_not_spoil_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: str
) -> None:
    evaluate = client_side.Clients.evaluate

    def broken(self: Any, number: int, content: Any) -> Any:
        reply = evaluate(self, number, content)
        if number == 1:
            reply["metrics"]["loss"] = float("nan")
        return reply

    monkeypatch.setattr(client_side.Clients, "evaluate", broken)
    metrics = federate(waves(), settings(federation={"best": best}), tmp_path / "run")
    assert metrics["best_round"] >= 1
    assert metrics["clients"]["client 1"]["loss"] is None
    assert np.isfinite(metrics["global"]["loss"])
    json.loads((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()[0], parse_constant=pytest.fail)


def test_early_stop_by_the_mean_or_by_the_worst_client(tmp_path: Path) -> None:
    config = {"rounds": 30, "patience": 2, "rate": "constant"}
    training = SMALL["training"] | {"learning_rate": 0.05}
    for best in ("mean", "worst"):
        federation = settings(federation=config | {"best": best}, training=training)
        metrics = federate(waves(), federation, tmp_path / best)
        rounds = FederationFolder(tmp_path / best).rounds()
        losses = [
            line["validation"]["global"]["loss"]
            if best == "mean"
            else max(client["loss"] for client in line["validation"]["clients"].values())
            for line in rounds
        ]
        assert metrics["best_round"] == int(np.argmin(losses)) + 1
        assert metrics["rounds"] == min(metrics["best_round"] + 2, 30)


def test_partial_participation_is_seeded(tmp_path: Path) -> None:
    for name in ("a", "b"):
        federate(waves(), settings(federation={"rounds": 4, "fraction": 0.4}), tmp_path / name)
    who = [[line["participants"] for line in FederationFolder(tmp_path / name).rounds()] for name in ("a", "b")]
    assert who[0] == who[1]
    assert {len(here) for here in who[0]} == {1}
    assert len({tuple(here) for here in who[0]}) > 1


def test_pooled_is_what_one_holder_of_everything_would_train(tmp_path: Path) -> None:
    federation = settings("pooled")
    federate(waves(), federation, tmp_path / "run")
    assert FederationFolder(tmp_path / "run").rounds()[1]["participants"] == [0]
    clients = clients_of(federation, tmp_path)
    everybodys = sum(len(clients.held(client).parts.train) for client in range(3))
    assert len(clients.held(0).trained.train) == everybodys > len(clients.held(0).parts.train)


def test_equal_local_steps_change_a_federation_and_not_pooled_training(tmp_path: Path) -> None:
    for method, alike in (("pooled", True), ("fedavg", False)):
        for steps in (0, 3):
            federate(
                waves(), settings(method, federation={"rounds": 1, "local_steps": steps}), tmp_path / f"{method}{steps}"
            )
        one, two = (RunFolder(tmp_path / f"{method}{steps}").best() for steps in (0, 3))
        assert all(torch.equal(one[name], two[name]) for name in one) is alike


def test_pooled_scales_as_any_other_method(tmp_path: Path) -> None:
    """The pool's windows are not counted beside those of the clients they came from."""
    for method in ("pooled", "fedavg"):
        federate(waves(), settings(method, federation={"rounds": 1}), tmp_path / method)
    scalers = [RunFolder(tmp_path / method).template()[1] for method in ("pooled", "fedavg")]
    assert np.array_equal(scalers[0].mean, scalers[1].mean)
    assert np.array_equal(scalers[0].deviation, scalers[1].deviation)


@pytest.mark.parametrize("scaler", ["shared", "own"])
def test_kinds_of_day_that_any_client_met_are_known_to_all(tmp_path: Path, scaler: str) -> None:
    federate(waves(steps=9 * 24), settings(federation={"rounds": 1, "scaler": scaler}), tmp_path / "run")
    assert Run.load(tmp_path / "run").scaler.kinds == (0, 1, 2, 3, 4, 5)  # trained on Monday to Saturday


def test_each_clients_own_scaler_by_a_key(tmp_path: Path) -> None:
    metrics = federate(waves(), settings(federation={"scaler": "own"}), tmp_path / "run")
    assert np.isfinite(metrics["global"]["rmse"])


def test_the_shared_scaler_is_the_one_of_all_training_values(tmp_path: Path) -> None:
    """Under `nodes` every value has one holder, so the clients' sums add up to those of the whole."""
    from f2stnet.data.scaler import fit_scaler

    series, federation = waves(missing_share=0.05), settings(kind="nodes")
    federate(series, federation, tmp_path / "run")
    window = federation.run.window
    wanted = fit_scaler(series, clients_of(federation, tmp_path).held(0).parts.train, window.input, window.horizon)
    found = Run.load(tmp_path / "run").scaler
    assert found.mean == pytest.approx(wanted.mean)
    assert found.deviation == pytest.approx(wanted.deviation)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["ffa", "moon", "ditto", "local", "fedsage", "fggp"])
def test_recorded_steps_and_forecasts_give_the_same_run_as_plain_ones(tmp_path: Path, method: str) -> None:
    found = []
    for capture in (True, False):
        training = SMALL["training"] | {"device": "cuda", "capture": capture}
        federation = settings(method, kind_for(method), training=training)
        found.append(federate(waves(), federation, tmp_path / str(capture)))
    assert found[0]["global"]["rmse"] == pytest.approx(found[1]["global"]["rmse"], rel=1e-5)
    assert found[0]["fairness"]["max_rmse"] == pytest.approx(found[1]["fairness"]["max_rmse"], rel=1e-5)


# What leaves a client


def record_messages(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    seen: list[Message] = []
    call = InProcessGrid._call

    def listening(grid: InProcessGrid, message: Message) -> Message:
        reply = call(grid, message)
        seen.append(reply)
        return reply

    monkeypatch.setattr(InProcessGrid, "_call", listening)
    return seen


def parts_of(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, record in message.content.items():
        if isinstance(record, ArrayRecord):
            found |= {"arrays": None} if key == "arrays" else {name: array.shape for name, array in record.items()}
        elif isinstance(record, MetricRecord | ConfigRecord):
            found |= {f"{key}.{name}": value for name, value in record.items()}
    return found


@pytest.mark.parametrize("method", sorted(methods))
def test_nothing_undeclared_leaves_a_client_and_no_reading_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    series = waves()
    canaries = {1234.5625, -777.125, 4321.0625}
    values = series.values.copy()
    for place, canary in enumerate(sorted(canaries)):
        values[40 * place + 5, place, 0] = canary
    from dataclasses import replace

    seen = record_messages(monkeypatch)
    federation = settings(method, kind_for(method))
    metrics = federate(replace(series, values=values), federation, tmp_path / "run")
    assert metrics["refused"] == 0
    declared = {sent.name: sent.shape for sent in (*MESSAGES, *compose(method).sends)}
    model_names: set[str] | None = None
    for message in seen:
        for name, value in parts_of(message).items():
            assert name in declared, f"{method} sends {name}, which it does not declare"
            if name.startswith("metrics.") and declared[name] == "one number":
                assert not isinstance(value, list), name
            numbers = value if isinstance(value, list) else [value]
            assert not {n for n in numbers if isinstance(n, float)} & canaries, name
        for key, record in message.content.items():
            if isinstance(record, ArrayRecord):
                for name, array in record.items():
                    flat = np.frombuffer(array.data, dtype=np.uint8).tobytes()
                    for canary in canaries:
                        assert np.float32(canary).tobytes() not in flat, f"{method}: a reading in {key}.{name}"
                if key == "arrays":
                    shapes = {(name, tuple(array.shape)) for name, array in record.items()}
                    model_names = model_names or shapes  # type: ignore[assignment]
                    assert shapes == model_names  # always the model, nothing beside it


def test_under_nodes_a_clients_answers_do_not_depend_on_what_others_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    federation = settings(kind="nodes", federation={"rounds": 1, "scaler": "own"})
    own = clients_of(federation, tmp_path).held(0).nodes
    answers = []
    for place, shift in enumerate((0.0, 5.0)):
        with monkeypatch.context() as patch:
            seen = record_messages(patch)
            values = waves().values.copy()
            others = np.setdiff1d(np.arange(values.shape[1]), own)
            values[:, others] += shift
            federate(replace(waves(), values=values), federation, tmp_path / str(place))
            mine = [m for m in seen if m.metadata.src_node_id == 2 and "arrays" in m.content]
            answers.append([array.data for m in mine for array in m.content["arrays"].values()])
    assert answers[0]
    assert answers[0] == answers[1]


def test_under_windows_a_client_looks_up_no_day_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    window = {"days": 2, "input": 6, "horizon": 4}
    federation = settings(window=window, federation={"rounds": 1, "scaler": "own"})
    own = clients_of(federation, tmp_path).held(1).steps
    assert own is not None
    answers = []
    for place, shift in enumerate((0.0, 5.0)):
        with monkeypatch.context() as patch:
            seen = record_messages(patch)
            values = waves().values.copy()
            values[~own] += shift
            federate(replace(waves(), values=values), federation, tmp_path / str(place))
            mine = [m for m in seen if m.metadata.src_node_id == 3 and "arrays" in m.content]
            answers.append([array.data for m in mine for array in m.content["arrays"].values()])
    assert answers[0]
    assert answers[0] == answers[1]


# What is refused


def test_misuse_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only under partition 'nodes'"):
        settings("fedsage", "windows")
    with pytest.raises(InputError, match="unknown section 'moon'"):
        settings("ffa", moon={"mu": 1.0})
    with pytest.raises(InputError, match="has nothing to train"):
        federate(
            waves(), configure_federation("ffa", "last-value", sections={"partition": {"clients": 2}}), tmp_path / "a"
        )
    federate(waves(), settings(), tmp_path / "run")
    with pytest.raises(InputError, match="holds a run already"):
        federate(waves(), settings(), tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "clients", ignore_errors=True)
    (tmp_path / "run" / "metrics.json").unlink()
    with pytest.raises(InputError, match="other data"):
        federate(waves(seed=3), settings(), tmp_path / "run", resume=True)


def test_days_are_read_by_default_only_where_clients_have_them() -> None:
    def days(sections: dict[str, dict[str, object]], partitioned: bool = True) -> int:
        return configure_federation("fedavg", "f2stnet", sections=sections, partitioned=partitioned).run.window.days

    assert [days({"partition": {"kind": kind}}) for kind in ("windows", "regime", "nodes")] == [0, 0, 7]
    assert days({}, partitioned=False) == 7
    assert days({"partition": {"kind": "regime"}, "window": {"days": 3}}) == 3


def test_batches_are_smaller_where_windows_are_divided() -> None:
    def batch(sections: dict[str, dict[str, object]], partitioned: bool = True) -> int:
        return configure_federation("fedavg", "stid", sections=sections, partitioned=partitioned).run.training.batch

    assert [batch({"partition": {"kind": kind}}) for kind in ("windows", "regime", "nodes")] == [16, 16, 64]
    assert batch({}, partitioned=False) == 64
    assert batch({"partition": {"kind": "regime"}, "training": {"batch": 5}}) == 5
