"""F2STNet: the letter of the paper, the switches of the default, the size limit."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Inputs, Task, Windows
from f2stnet.errors import InputError
from f2stnet.graph import Graph, from_edges, from_matrix
from f2stnet.models import count_parameters, models
from f2stnet.models.f2stnet import F2STNet, F2STNetConfig
from f2stnet.series import GraphSeries
from small import waves


def inputs_of(series: GraphSeries, days: int = 0, first: int = 0) -> Inputs:
    """Four windows of the training part, from the one of number `first` on."""
    parts = split(series, WindowConfig(6, 4))
    windows = Windows(series, fit_scaler(series, parts.train, 6, 4), 6, 4, days=days)
    return windows.inputs(torch.as_tensor(parts.train[first : first + 4]))


def task_of(series: GraphSeries, days: int = 0) -> Task:
    return Task.of(series, 6, 4, days)


def uneven(nodes: int = 6, seed: int = 3) -> Graph:
    """A connected graph with random weights: its eigenvalues are distinct."""
    random = np.random.default_rng(seed)
    matrix = np.triu(random.random((nodes, nodes)), 1)
    return from_matrix(matrix + matrix.T, [f"s{i}" for i in range(nodes)])


def test_paper_variant_equals_its_equations_written_out() -> None:
    """Eqs. 1 to 10 in plain tensor operations, with the layers' own parameters."""
    series = waves(nodes=6, graph=uneven(), channels=2)
    torch.manual_seed(0)
    model = F2STNet(F2STNetConfig(variant="paper", width=8, frequencies=3), task_of(series)).double()
    inputs = inputs_of(series)
    x = inputs.values.double()
    body = model.body
    spectral, temporal, spatial = body.spectral, body.temporal, body.spatial
    u_f = spectral.basis
    c = torch.einsum("nf,btnk->btkf", u_f, x)
    s = u_f[None, None, :, None, :] * c[:, :, None]
    e = spectral.second(functional.gelu(spectral.first(s)))
    z = torch.cat([x, e.flatten(-2)], -1) @ spectral.fuse.weight.T + spectral.fuse.bias
    low, b, gate = temporal.project(z).split([temporal.rank, 8, 8], -1)
    delta = torch.log1p(torch.exp(low @ temporal.step.weight.T + temporal.step.bias))
    a = -torch.exp(temporal.a_log[:, 0])
    h = torch.zeros_like(z[:, 0])
    for t in range(6):
        a_bar = torch.exp(delta[:, t] * a)
        h = a_bar * h + (a_bar - 1) / a * b[:, t] * z[:, t]
    o = gate[:, -1] * h + temporal.skip * z[:, -1]
    operator = torch.tensor(series.graph.operator.toarray())
    g = torch.relu(operator @ o @ spatial.weight.weight.T)
    p = g @ model.head.weight.T + model.head.bias
    expected = p.view(4, 6, 4, 2).permute(0, 2, 1, 3)
    found = model(replace(inputs, values=x))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)  # the operator's buffer is float32


def test_paper_variant_is_permutation_equivariant() -> None:
    """Renumbering the sensors renumbers the forecasts, where no eigenvalue is double."""
    series = waves(nodes=6, graph=uneven())
    order = [3, 0, 5, 1, 4, 2]
    shuffled = series.select(order)
    config = F2STNetConfig(variant="paper", width=8, frequencies=4)
    torch.manual_seed(0)
    model = F2STNet(config, task_of(series))
    other = F2STNet(config, task_of(shuffled))
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        assert mine.shape == theirs.shape, name
        theirs.data.copy_(mine.data)
    with torch.no_grad():
        expected = model(inputs_of(series))[:, :, order]
        torch.testing.assert_close(other(inputs_of(shuffled)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "channels", "slots"),
    [(307, 1, 288), (307, 3, 288), (80, 2, 96), (184, 1, 8), (184, 18, 8)],
    ids=["PeMS04", "PeMS04-3ch", "HZMetro", "KnowAir", "KnowAir-all"],
)
@pytest.mark.parametrize("variant", ["default", "paper"])
def test_fewer_than_1_2_million_parameters(nodes: int, channels: int, slots: int, variant: str) -> None:
    graph = from_edges(np.stack([np.arange(nodes - 1), np.arange(1, nodes)], 1), [str(i) for i in range(nodes)])
    days = models.find("f2stnet").window["days"] if variant == "default" else 0
    task = Task(12, 12, channels, tuple(range(min(channels, 2))), (), slots, graph, days)
    assert count_parameters(F2STNet(F2STNetConfig(variant=variant), task)) < 1_200_000  # type: ignore[arg-type]


SWITCHES = {
    "spectral": False,
    "state_space": False,
    "graph": False,
    "residual": False,
    "bridge": not F2STNetConfig().bridge,
    "window": False,
    "node": False,
    "calendar": False,
    "edges": 4,
    "future": 0,
    "learned_graph": 4,
    "blocks": 0,
    "mixing": 0,
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_changes_the_model_and_leaves_a_working_one(switch: str) -> None:
    series = waves(nodes=4, missing_share=0.2)
    torch.manual_seed(0)
    whole = F2STNet(F2STNetConfig(), task_of(series)).eval()
    for mix in whole.body.mixing:
        torch.nn.init.normal_(mix.leave.weight)  # they begin as nothing
    other = F2STNet(F2STNetConfig(**{switch: SWITCHES[switch]}), task_of(series)).eval()  # type: ignore[arg-type]
    own = other.state_dict()
    shared = {name: tensor for name, tensor in whole.state_dict().items() if name in own}
    other.load_state_dict({name: x for name, x in shared.items() if x.shape == own[name].shape}, strict=False)
    more = count_parameters(other) - count_parameters(whole)
    assert np.sign(more) == {"residual": 0, "bridge": 0, "learned_graph": 1}.get(switch, -1)
    with torch.no_grad():
        found, wanted = other(inputs_of(series)), whole(inputs_of(series))
    assert found.shape == wanted.shape
    assert not torch.allclose(found, wanted)


def test_without_edges_there_are_no_frequencies_to_mix() -> None:
    """Each of them would be one sensor, and those that come first would have blocks of their own."""
    alone = from_matrix(np.zeros((4, 4)), [f"s{i}" for i in range(4)])
    assert len(F2STNet(F2STNetConfig(), task_of(waves(nodes=4))).body.mixing) == 3
    assert len(F2STNet(F2STNetConfig(), task_of(waves(nodes=4, graph=alone))).body.mixing) == 0


def test_the_default_variant_is_told_what_was_observed() -> None:
    series = waves(nodes=4)
    model = F2STNet(F2STNetConfig(), task_of(series)).eval()
    inputs = inputs_of(series)
    unseen = replace(inputs, observed=torch.zeros_like(inputs.observed))
    with torch.no_grad():
        assert not torch.allclose(model(inputs), model(unseen))


def test_known_channels_at_the_horizon_are_read() -> None:
    series = waves(nodes=4, channels=2, known=1)
    model = F2STNet(F2STNetConfig(), task_of(series)).eval()
    inputs = inputs_of(series)
    with torch.no_grad():
        other = model(replace(inputs, known=inputs.known + 1))
        assert not torch.allclose(model(inputs), other)


def test_a_switch_of_the_default_is_refused_with_the_letter() -> None:
    with pytest.raises(InputError, match="dropout is a key of the default variant"):
        F2STNetConfig(variant="paper", dropout=0.3)
    with pytest.raises(InputError, match="mixing is a key of the default variant"):
        F2STNetConfig(variant="paper", mixing=16)
    assert F2STNetConfig(variant="paper", mixing=0).mixing == 0  # which is what it is without the key
    keys = {field.name for field in fields(F2STNetConfig)}
    assert set(SWITCHES) <= keys


def test_nothing_that_reads_the_input_is_refused() -> None:
    with pytest.raises(InputError, match="nothing would read the input"):
        F2STNetConfig(state_space=False, window=False)


def test_the_hours_to_come_are_added_to_each_step_of_the_forecast() -> None:
    series = waves(nodes=3, channels=2)
    torch.manual_seed(0)
    model = F2STNet(F2STNetConfig(width=8, frequencies=2, blocks=1, future=4), task_of(series)).eval()
    inputs, future = inputs_of(series), model.future
    assert future is not None
    features: list[torch.Tensor] = []
    model.head.register_forward_hook(lambda _, given, __: features.append(given[0]))
    found = model(inputs)
    plain = model.head(features[0]).view(4, 3, 4, 2).permute(0, 2, 1, 3)
    asked = future.ask(features[0]).view(4, 3, 2, 8)
    for window in range(4):
        for step in range(4):
            slot, day = int(inputs.slot[window, 6 + step]), int(inputs.day[window, 6 + step])
            hour = torch.cat([future.when.slot.weight[slot], future.when.day.weight[day]])
            torch.testing.assert_close(found[window, step], plain[window, step] + asked[window] @ hour)


def test_with_earlier_days_the_forecast_follows_them_and_nothing_else_is_needed() -> None:
    series = waves(nodes=3)
    torch.manual_seed(0)
    model = F2STNet(F2STNetConfig(width=8, frequencies=2, blocks=1), task_of(series, days=2)).eval()
    inputs = inputs_of(series, days=2, first=60)
    assert inputs.earlier is not None
    changed = replace(inputs.earlier, values=inputs.earlier.values.index_fill(1, torch.tensor([1]), 3.0))
    assert not torch.allclose(model(inputs), model(replace(inputs, earlier=changed)))
    with pytest.raises(AssertionError, match="earlier days"):
        model(replace(inputs, earlier=None))


@pytest.mark.parametrize("settings", [{"state_space": False}, {"variant": "paper"}], ids=str)
def test_without_what_reads_them_earlier_days_change_nothing(settings: dict[str, Any]) -> None:
    series = waves(nodes=3)
    config = F2STNetConfig(width=8, frequencies=2, **settings)
    model = F2STNet(config, task_of(series, days=7)).eval()
    assert count_parameters(model) == count_parameters(F2STNet(config, task_of(series)))
    inputs = inputs_of(series, days=7, first=60)
    torch.testing.assert_close(model(inputs), model(replace(inputs, earlier=None)), rtol=0, atol=0)
