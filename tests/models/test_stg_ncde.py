"""STG-NCDE: the path, the two equations along it, and the rule that solves them."""

import math

import pytest
import torch
from scipy.interpolate import CubicSpline
from torchdiffeq import odeint

from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.layers.node_weights import NodeMaps
from f2stnet.models.stg_ncde import STGNCDE, Mixing, SpatialField, STGNCDEConfig, TemporalField, integrate
from small import waves

SMALL = STGNCDEConfig(width=8, embedding=4)


def model_of(nodes: int = 4, config: STGNCDEConfig = SMALL, steps: int = 6) -> STGNCDE:
    torch.manual_seed(0)
    return STGNCDE(config, Task.of(waves(nodes=nodes), steps, 3)).eval()


def inputs_of(values: torch.Tensor, observed: torch.Tensor | None = None, horizon: int = 3) -> Inputs:
    batch, steps, nodes = values.shape[:3]
    clock = torch.zeros(batch, steps + horizon, dtype=torch.long)
    nothing = torch.zeros(batch, horizon, nodes, 0)
    return Inputs(values, torch.ones_like(values) if observed is None else observed, clock, clock, nothing, nothing)


def test_the_rule_is_of_fourth_order() -> None:
    """dy = y dX with X(t) = t ends in e; one step finds the first five terms of its series; half steps err a 16th."""
    one = integrate(lambda y, dx: y * dx, torch.ones(1, dtype=torch.float64), torch.ones(4, 1, dtype=torch.float64))
    assert float(one) == pytest.approx(1 + 1 + 1 / 2 + 1 / 6 + 1 / 24, abs=1e-12)
    errors = []
    for parts in (4, 8, 16):  # the same path, walked in smaller steps
        pace = torch.full((3 * parts + 1, 1), 1.0 / parts, dtype=torch.float64)
        errors.append(abs(float(integrate(lambda y, dx: y * dx, torch.ones(1, dtype=torch.float64), pace)) - math.e))
    assert errors[0] / errors[1] > 14
    assert errors[1] / errors[2] > 14


def test_the_rule_is_the_one_that_torchdiffeq_calls_rk4() -> None:
    torch.manual_seed(0)
    weight = torch.randn(3, 3, dtype=torch.float64)
    pace = torch.randn(13, 2, 1, dtype=torch.float64)

    def field(state: torch.Tensor, dx: torch.Tensor) -> torch.Tensor:
        return torch.tanh(state @ weight) * dx

    start, times = torch.randn(2, 3, dtype=torch.float64), torch.arange(5.0, dtype=torch.float64)
    theirs = odeint(lambda t, y: field(y, pace[round(float(t) * 3)]), start, times, method="rk4")[-1]
    torch.testing.assert_close(integrate(field, start, pace), theirs)


def test_a_path_without_intervals_leaves_the_state() -> None:
    start = torch.randn(2, 3)
    assert torch.equal(integrate(lambda y, dx: y, start, torch.ones(1, 2, 3)), start)


def test_the_states_follow_their_equations() -> None:
    """dh = f(h) dX and dz = g(z) f(h) dX, with f and g as matrices, by torchdiffeq along the spline of scipy."""
    model = model_of(nodes=3, steps=5).double()
    values = torch.randn(2, 5, 3, 1, dtype=torch.float64)
    spline = CubicSpline(range(5), values.numpy(), axis=1, bc_type="natural")
    mixing = model.spatial.mixing()

    def along(t: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        h, z = state
        slope = torch.from_numpy(spline(float(t), 1))
        dx = torch.cat([torch.ones_like(slope), slope], dim=-1)
        f = model.temporal.field(h).view(2, 3, 8, 2)
        near = mixing.powers(torch.relu(model.spatial.enter(z)), 2)
        mixed = torch.einsum("bni,nio->bno", near, mixing.maps.weight) + mixing.maps.bias
        g = torch.tanh(model.spatial.leave(mixed)).view(2, 3, 8, 8)
        return torch.einsum("bndp,bnp->bnd", f, dx), torch.einsum("bnde,bnep,bnp->bnd", g, f, dx)

    with torch.no_grad():
        start = torch.cat([torch.zeros_like(values[:, 0]), values[:, 0]], dim=-1)
        begin = (model.start_temporal(start), model.start_spatial(start))
        _, z = odeint(along, begin, torch.arange(5.0, dtype=torch.float64), method="rk4")
        expected = model.head(z[-1]).view(2, 3, 3, 1).permute(0, 2, 1, 3)
        # The matrix of slopes is in single precision.
        torch.testing.assert_close(model(inputs_of(values)), expected, rtol=0, atol=1e-5)


def test_chebyshev_terms_by_hand() -> None:
    graph = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    mixing = Mixing(graph, NodeMaps(torch.zeros(0), torch.zeros(0)))
    x = torch.tensor([[[1.0], [3.0]]])
    # S x = (3, 2); 2 S (S x) − x = 2 (2, 2.5) − (1, 3)
    assert mixing.powers(x, 1)[0].tolist() == [[1], [3]]
    assert mixing.powers(x, 3)[0].tolist() == [[1, 3, 3], [3, 2, 2]]


def test_the_learned_graph_and_the_weights_of_a_sensor_come_from_its_embedding() -> None:
    field = SpatialField(3, SMALL)
    with torch.no_grad():
        field.embedding.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [2.0, 0, 0, 0]]))
        field.maps.bias.normal_()
    mixing = field.mixing()
    rows = torch.softmax(torch.tensor([[1.0, 0, 2], [0, 1, 0], [2, 0, 4]]), dim=-1)
    torch.testing.assert_close(mixing.graph, rows)
    torch.testing.assert_close(mixing.maps.weight[0], field.maps.weight[0])
    torch.testing.assert_close(mixing.maps.weight[2], 2 * field.maps.weight[0])
    torch.testing.assert_close(mixing.maps.bias[1], field.maps.bias[1])


def test_the_temporal_equation_knows_a_sensor_alone_and_stands_where_the_path_stands() -> None:
    field = TemporalField(2, 8, 2)
    h, dx = torch.randn(1, 3, 8), torch.randn(1, 3, 2)
    dx[:, 1] = 0.0
    found = field(h, dx)
    assert not found[:, 1].any()
    assert (found[:, 0].abs() <= dx[:, 0].abs().sum() + 1e-6).all()  # tanh
    changed = h.clone()
    changed[:, 0] += 1.0
    torch.testing.assert_close(field(changed, dx)[:, 1:], found[:, 1:])


def test_without_the_graph_a_forecast_is_its_own_sensors_alone() -> None:
    values = torch.randn(1, 6, 4, 1)
    changed = values.clone()
    changed[:, :, 0] += 1.0
    for order, others_move in ((2, True), (1, False)):
        model = model_of(config=STGNCDEConfig(width=8, embedding=4, order=order))
        with torch.no_grad():
            moved = (model(inputs_of(changed)) - model(inputs_of(values))).abs().amax((0, 1, 3)) > 1e-7
        assert moved.tolist() == [True, others_move, others_move, others_move]


def test_the_spatial_equation_switched_off_leaves_the_start() -> None:
    model, inputs = model_of(), inputs_of(torch.randn(2, 6, 4, 1))
    with torch.no_grad():
        whole = model(inputs)
        model.spatial.leave.weight.zero_()
        model.spatial.leave.bias.zero_()
        rest = model(inputs)
        start = torch.nn.functional.pad(inputs.values[:, 0], (1, 0))
        expected = model.head(model.start_spatial(start)).view(2, 4, 3, 1).permute(0, 2, 1, 3)
    assert not torch.allclose(whole, rest, atol=1e-4)
    torch.testing.assert_close(rest, expected)


def test_an_unobserved_value_is_not_read() -> None:
    model, values, observed = model_of(), torch.randn(2, 6, 4, 1), torch.ones(2, 6, 4, 1)
    observed[0, 2, 1] = observed[1, 5, 3] = observed[1, 0, 0] = 0.0
    with torch.no_grad():
        got = model(inputs_of(values, observed))
        values[0, 2, 1] = values[1, 5, 3] = values[1, 0, 0] = 9.0
        torch.testing.assert_close(model(inputs_of(values, observed)), got)


def test_recomputing_changes_no_gradient() -> None:
    values, found = torch.randn(2, 6, 4, 1), []
    for recompute in (True, False):
        model = model_of(config=STGNCDEConfig(width=8, embedding=4, recompute=recompute))
        model(inputs_of(values)).square().sum().backward()
        found.append([parameter.grad for parameter in model.parameters()])
    for with_it, without in zip(*found, strict=True):
        torch.testing.assert_close(with_it, without)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InputError, match="order = 0"):
        STGNCDEConfig(order=0)
