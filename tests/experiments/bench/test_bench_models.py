"""Whole models: FLOPs by hand and by torch agree, and rows say what they measure."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from f2stnet.errors import InputError
from f2stnet.experiments.bench.flops import by_hand, counted
from f2stnet.experiments.bench.infer import bench_infer
from f2stnet.experiments.bench.step import bench_step, trainer_of
from f2stnet.experiments.bench.subjects import PEMS04_WINDOWS, Subject, each_model, pems04_size, ring, sensors, subject
from f2stnet.training.evaluate import Forecaster
from f2stnet.training.trainer import silent

CPU = torch.device("cpu")
NODES = 20


@pytest.mark.parametrize("name", ["f2stnet", "paper"])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_hand_count_is_torchs_count_but_for_edges_that_are_not_there(name: str, batch: int) -> None:
    chosen = subject(name, sensors(NODES, 40), CPU)
    forecaster = Forecaster(chosen.model.eval(), chosen.windows)
    hand = by_hand(chosen.model, batch, 12, NODES, chosen.windows.days)
    assert hand is not None
    each = batch * 64 + (chosen.config.settings.edges if name == "f2stnet" else 0)  # products for one edge
    as_if_dense = 2 * each * (NODES**2 - chosen.windows.graph.operator.nnz)
    assert counted(lambda: forecaster(torch.as_tensor(chosen.train[:batch]))) == sum(hand.values()) + as_if_dense


def test_a_large_learned_graph_is_counted_as_what_it_is() -> None:
    chosen = subject("f2stnet", sensors(NODES, 40), CPU, learned_graph=16)
    before = by_hand(chosen.model, 1, 12, NODES)
    chosen.model.body.learned.grouped = True
    after = by_hand(chosen.model, 1, 12, NODES)
    assert before is not None
    assert after is not None
    assert before["learned graph"] - after["learned graph"] == 2 * (NODES**2 * (16 + 64) - 2 * NODES * 16 * 64)


def test_other_models_have_no_hand_count() -> None:
    assert by_hand(subject("stid", sensors(NODES, 40), CPU).model, 1, 12, NODES) is None


def test_rows_of_forecasts() -> None:
    found = bench_infer(sensors(NODES, 100), CPU, ["f2stnet", "stid"], runs=2, seconds=1)
    ours, other = found["rows"]
    assert (ours["model"], other["model"]) == ("f2stnet", "stid")
    assert ours["parameters"] > other["parameters"] > 0
    assert ours["flops_by_hand"] == sum(ours["flops_by_part"].values())
    assert other["flops_by_hand"] is None
    for row in found["rows"]:
        assert row["batch"] == 64
        assert min(row["latency_ms"], row["windows_a_second"], row["peak_bytes"], row["flops"]) > 0


def test_rows_of_training_steps_and_a_measured_epoch() -> None:
    found = bench_step(sensors(NODES, 100), CPU, ["stid"], epochs=["stid"], runs=2, seconds=1)
    (row,) = found["rows"]
    assert row["epoch_extrapolated_s"] == pytest.approx(160 * row["ms"] / 1e3)
    assert row["epoch_windows"] == 100 - 24 + 1
    assert row["epoch_s"] > 0
    assert row["flops"] > 2 * 64 * row["parameters"]


def test_pems04_size_is_the_papers() -> None:
    series = pems04_size()
    assert len(series.nodes) == 307
    assert series.slots_per_day == 288
    assert len(subject("stid", series, CPU).train) == PEMS04_WINDOWS


def test_the_made_up_graph_is_a_map_of_any_size() -> None:
    for nodes in (2, 300):
        graph = ring(nodes)
        assert len(graph) == nodes
        assert np.diff(graph.adjacency.indptr).min() >= min(4, nodes - 1)
    assert ring(50).digest == ring(50).digest


def test_all_models_that_have_parameters_are_measured() -> None:
    rows, _ = each_model(None, sensors(5, 40), CPU, lambda chosen: {"name": chosen.name})
    names = {row["name"] for row in rows}
    assert {"f2stnet", "paper", "stid"} <= names
    assert not {"last-value", "linear", "historical-average"} & names
    with pytest.raises(InputError, match="unknown model 'stit'; did you mean 'stid'"):
        each_model(["stit"], sensors(5, 40), CPU, lambda chosen: {})


def test_a_model_that_fails_is_left_out_with_a_word() -> None:
    def row(chosen: Subject) -> dict[str, str]:
        if chosen.name == "paper":
            raise RuntimeError("no room\nfor it")
        return {"name": chosen.name}

    rows, absent = each_model(["paper", "linear", "stid"], sensors(5, 40), CPU, row)
    assert rows == [{"name": "stid"}]
    assert absent == {"paper": "no room", "linear": "it has no parameters"}


@pytest.mark.cuda
@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("name", ["f2stnet", "paper", "stid"])
def test_no_batch_of_an_epoch_waits_for_the_device(name: str, capture: bool) -> None:
    """From the first batch to the last, any synchronisation with the host raises."""
    chosen = subject(name, sensors(NODES, 12 + 12 + 64 * 3 + 10), torch.device("cuda"))
    training = replace(chosen.config.training, capture=capture, least_steps=0)
    trainer = trainer_of(replace(chosen, config=replace(chosen.config, training=training)))
    trainer.epoch(1, silent)
    seen = []

    def watch(event: str, facts: dict[str, int]) -> None:
        seen.append(facts["done"])
        torch.cuda.set_sync_debug_mode("default" if facts["done"] == facts["of"] else "error")

    try:
        trainer.epoch(2, watch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert seen == [1, 2, 3, 4]
