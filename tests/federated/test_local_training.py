"""The client's bench: what a turn leaves as it found it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from f2stnet.data.windows import Task
from f2stnet.errors import InputError
from f2stnet.federated import local_descent, local_training
from f2stnet.federated.settings import configure_federation
from f2stnet.models import count_parameters, make_model, models
from small import waves
from workbench import bench


@pytest.mark.parametrize("training", [True, False])
def test_looking_at_features_leaves_the_model_in_the_mode_it_was_in(training: bool) -> None:
    local = bench("moon", dropout=0.5)
    inputs = local.windows.inputs(torch.as_tensor(local.parts.train[:4]))
    local.model.train(training)
    first, again = local.features_with({}, inputs), local.features_with({}, inputs)
    assert torch.equal(first, again)  # without dropout in either mode
    assert all(module.training is training for module in local.model.modules())


def test_moments_start_afresh_in_every_round_of_a_shared_model() -> None:
    local = bench("fedavg")
    first, _, _ = local.train(0.01)
    enter = (0, 0, 0, local.parts, np.arange(4), local.windows.scaler)
    start = {name: array.clone() for name, array in local.anchors.items()}
    local.enter(*enter, {}, {})
    local.take_weights(start)
    again, _, _ = local.train(0.01)
    assert local.kept == {}
    assert all(torch.equal(first[name], again[name]) for name in start)


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_calendar_rows_of_times_that_a_client_never_met_come_back_as_they_went(method: str) -> None:
    """By the usual recipe weight decay moves every row at every step: 'whoever changed it' would be everybody."""
    slots = {}
    for owners in (False, True):
        local = bench(method, owners=owners, weight_decay=0.3)
        local.parts = replace(local.parts, train=local.parts.train[:4])
        trained, _, _ = local.train(0.01)
        (name,) = [name for name in trained if name.endswith("slot.weight")]
        slots[owners] = (trained[name] != local.anchors[name]).any(1)
    met = torch.zeros(len(slots[True]), dtype=torch.bool)
    met[local.windows.clock(torch.as_tensor(local.parts.train))[0].unique()] = True
    assert slots[False].all()
    assert 0 < met.sum() < len(met)
    assert torch.equal(slots[True], met)


def test_the_key_that_kept_moments_is_gone() -> None:
    with pytest.raises(InputError, match=r"unknown key 'federation\.moments'"):
        configure_federation(sections={"federation": {"moments": "kept"}})


@pytest.mark.skipif(torch.cuda.is_available(), reason="only without a GPU are calls to one noted down")
def test_entering_leaves_nothing_behind_that_grows_with_the_turns() -> None:
    local = bench("fedavg")
    before = len(torch.cuda._queued_calls)
    local.enter(1, 2, 3, local.parts, np.arange(4), local.windows.scaler, {}, {})
    assert len(torch.cuda._queued_calls) == before
    first = torch.rand(3)
    torch.manual_seed(int(np.random.SeedSequence([3, 2, 1]).generate_state(1)[0]))
    assert torch.equal(first, torch.rand(3))


@pytest.mark.parametrize("name", sorted(models))
def test_no_model_draws_random_numbers_in_a_backward_pass_or_in_evaluation(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients side by side give their turn at the stream away there."""
    series = waves()
    torch.manual_seed(0)
    model = make_model(name, models.find(name).config, Task.of(series, 6, 3, 0))
    if not count_parameters(model):
        pytest.skip("nothing to train")
    local = bench("fedavg", model=model)
    drawn: list[bool] = []

    @contextmanager
    def watched() -> Iterator[None]:
        before = torch.get_rng_state()
        yield
        drawn.append(not torch.equal(before, torch.get_rng_state()))

    for module in (local_descent, local_training):
        monkeypatch.setattr(module, "nothing_is_drawn", watched)
    local.parts = replace(local.parts, train=local.parts.train[:2], validation=local.parts.validation[:2])
    local.train(0.01)
    local.score(local.parts.validation)
    assert drawn == [False] * 3  # a step, a validation loss, a score


@pytest.mark.parametrize(("windows", "expected"), [(None, 5), (31, 5), (3, 3)])
def test_local_steps_are_alike_for_clients_of_any_size(windows: int | None, expected: int) -> None:
    """A client with fewer windows than steps makes one of each."""
    local = bench("fedavg", steps=5)
    local.parts = replace(local.parts, train=local.parts.train[:windows])
    local.train(0.01)
    assert float(local.descent.moments()["adam.0.step"]) == expected


def test_local_steps_share_the_windows_out_evenly_and_leave_none_out(monkeypatch: pytest.MonkeyPatch) -> None:
    local = bench("fedavg", steps=7)
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(local.descent, "_step", seen.append)
    local.descent.start(0.01, {})
    local.descent.epoch(local.parts.train, 0)
    sizes = {len(origins) for origins in seen}
    assert max(sizes) - min(sizes) <= 1
    assert sorted(torch.cat(seen).tolist()) == sorted(local.parts.train.tolist())
