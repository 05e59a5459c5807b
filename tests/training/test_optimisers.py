"""Orthogonal steps: what they are, by hand; which weights take them; that a run with them can be stopped."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

from f2stnet.layers.embeddings import CalendarEmbedding, NodeEmbedding
from f2stnet.layers.frequency_mixing import FrequencyMixing
from f2stnet.training import fit
from f2stnet.training.optimisers import adam, descend, matrices, optimiser_of, orthogonal
from f2stnet.training.settings import TrainingConfig
from small import waves
from training.test_fit import figures, log_of, small

CPU = torch.device("cpu")
MUON = TrainingConfig(optimiser="muon", learning_rate=0.01, weight_decay=0.5)


class Stop(Exception):
    pass


@given(rows=st.integers(2, 12), more=st.integers(0, 12), seed=st.integers(0, 2**16))
def test_singular_values_become_alike_and_singular_vectors_stay(rows: int, more: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    u, _, vt = torch.linalg.svd(torch.randn(rows, rows + more, generator=random), full_matrices=False)
    values = 0.1 + torch.rand(rows, generator=random)
    found = orthogonal(((u * values) @ vt)[None])[0]
    inside = u.T @ found @ vt.T
    torch.testing.assert_close(inside, torch.diag(inside.diagonal()), atol=1e-3, rtol=0)
    assert 0.6 < float(inside.diagonal().min()) <= float(inside.diagonal().max()) < 1.3


def test_a_matrix_that_nothing_asks_to_move_stays() -> None:
    assert torch.equal(orthogonal(torch.zeros(2, 3, 4)), torch.zeros(2, 3, 4))


def test_a_large_and_a_small_gradient_ask_for_the_same_step() -> None:
    matrix = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(orthogonal(2.0**12 * matrix), orthogonal(2.0**-12 * matrix), atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (70, 3), (65, 130)])
def test_three_steps_by_hand(shape: tuple[int, int]) -> None:
    """W ← (1 − ηλ) W − .2 √max(r, c) η O, with O of a momentum that looks ahead: μ M + (1 − μ) G after M took G in."""
    random = torch.Generator().manual_seed(0)
    model = nn.Linear(shape[1], shape[0], bias=False)
    optimiser = optimiser_of(model, MUON, CPU)
    momentum, weight = torch.zeros(shape), model.weight.detach().clone()
    for _ in range(3):
        gradient = torch.randn(shape, generator=random)
        model.weight.grad = gradient.clone()
        optimiser.step()
        momentum = 0.95 * momentum + 0.05 * gradient
        ahead = 0.95 * momentum + 0.05 * gradient
        tall = shape[0] > shape[1]
        move = orthogonal((ahead.T if tall else ahead)[None])[0]
        weight = (1 - 0.01 * 0.5) * weight - 0.2 * max(shape) ** 0.5 * 0.01 * (move.T if tall else move)
        torch.testing.assert_close(model.weight.detach(), weight, atol=1e-5, rtol=0)


def test_matrices_that_move_together_move_as_each_would_alone() -> None:
    torch.manual_seed(0)
    together = nn.ModuleList([nn.Linear(*sides, bias=False) for sides in ((4, 6), (9, 3), (6, 4))])
    alone = [deepcopy(layer) for layer in together]
    optimisers = [optimiser_of(model, MUON, CPU) for model in (together, *alone)]
    for _ in range(2):
        for layer, copy in zip(together, alone, strict=True):
            layer.weight.grad = torch.randn_like(layer.weight)
            copy.weight.grad = layer.weight.grad.clone()
        for optimiser in optimisers:
            optimiser.step()
    for layer, copy in zip(together, alone, strict=True):
        torch.testing.assert_close(layer.weight, copy.weight, atol=1e-6, rtol=0)


def test_what_is_no_matrix_moves_as_adamw_moves_it() -> None:
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 1)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    adamw = replace(MUON, optimiser="adamw")
    both = optimiser_of(models[0], MUON, CPU), adam(list(models[1].parameters()), adamw, CPU)
    for _ in range(3):
        gradients = [torch.randn_like(parameter) for parameter in models[0].parameters()]
        for model, optimiser in zip(models, both, strict=True):
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient.clone()
            optimiser.step()
    moved = {
        name: torch.equal(p, q)
        for (name, p), q in zip(models[0].named_parameters(), models[1].parameters(), strict=True)
    }
    assert [name for name, alike in moved.items() if not alike] == ["0.weight"]  # [1, 6] is a vector


def test_tables_and_gains_are_no_matrices() -> None:
    model = nn.ModuleList([NodeEmbedding(5, 4), CalendarEmbedding(24, 4), FrequencyMixing(3, 6, 2)])
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(matrix)] for matrix in matrices(model)} == {"2.enter.weight", "2.leave.weight"}


def test_a_complex_matrix_moves_as_adamw_moves_it() -> None:
    assert not matrices(nn.Linear(4, 4, dtype=torch.complex64))


def test_a_matrix_that_two_layers_share_moves_once() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    optimiser = optimiser_of(model, replace(MUON, weight_decay=0.0), CPU)
    before = first.weight.detach().clone()
    descend(model(torch.randn(8, 4)).square().sum(), optimiser, list(model.parameters()), 0.0)
    moved = float((first.weight.detach() - before).norm())
    assert moved < 1.3 * 2 * 0.2 * 4**0.5 * 0.01  # four singular values of at most 1.3, each times .2 √4 η


def test_a_run_with_it_learns_and_ends_alike_when_it_was_stopped(tmp_path: Path) -> None:
    series, config = waves(), small("f2stnet", epochs=4, optimiser="muon")
    whole = fit(series, config, tmp_path / "whole")
    losses = [line["train_loss"] for line in log_of(whole.folder)]
    assert losses[-1] < 0.8 * losses[0]

    def stop(event: str, facts: dict[str, object]) -> None:
        if event == "batch" and facts["epoch"] == 3 and facts["done"] == 2:
            raise Stop

    with pytest.raises(Stop):
        fit(series, config, tmp_path / "cut", listen=stop)
    resumed = fit(series, config, tmp_path / "cut", resume=True)
    assert log_of(resumed.folder) == log_of(whole.folder)
    assert figures(resumed) == figures(whole)
    kept, again = (load_file(run.folder / "last.safetensors") for run in (whole, resumed))
    assert kept.keys() == again.keys()
    assert any(name.endswith(".momentum") for name in kept)
    assert all(torch.equal(kept[name], again[name]) for name in kept)


@pytest.mark.cuda
def test_on_a_gpu_a_recorded_run_learns_what_a_plain_one_does(tmp_path: Path) -> None:
    series = waves()
    runs = [
        fit(series, small("f2stnet", capture=capture, device="cuda", optimiser="muon"), tmp_path / str(capture))
        for capture in (True, False)
    ]
    losses = [[line["train_loss"] for line in log_of(run.folder)] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
