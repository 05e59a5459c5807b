"""SpoT-Mamba: what a node's place is made of, and what each scan and the attention may see."""

import pytest
import torch
from torch import Tensor, nn

from f2stnet.data.windows import Inputs, Task
from f2stnet.errors import InputError
from f2stnet.models import make_model
from f2stnet.models.spot_mamba import SpoTMambaConfig, WalkEmbedding
from f2stnet.training import configure
from small import chain, waves

SMALL = {"width": 8, "feed_forward": 16, "length": 4, "layers": 1}


def made(**settings: object) -> nn.Module:
    torch.manual_seed(0)
    config = SpoTMambaConfig(**(SMALL | settings))  # type: ignore[arg-type]
    return make_model("spot-mamba", config, Task.of(waves(nodes=5), 6, 4)).eval()


def window() -> Inputs:
    torch.manual_seed(3)
    values, nothing = torch.randn(2, 6, 5, 1), torch.zeros(2, 4, 5, 0)
    slot, day = torch.randint(24, (2, 10)), torch.randint(8, (2, 10))
    return Inputs(values, torch.ones_like(values), slot, day, nothing, nothing)


def answer(model: nn.Module, inputs: Inputs | None = None) -> Tensor:
    with torch.no_grad():
        result: Tensor = model(inputs or window())
    return result


def test_walks_of_three_kinds_start_at_their_node_and_cost_one_a_hop_on_a_plain_graph() -> None:
    places = WalkEmbedding(SpoTMambaConfig(**(SMALL | {"walks": 2})), chain(5))  # type: ignore[arg-type]
    assert places.met.shape == (4, 5, 6)
    assert (places.met[0] == torch.arange(5)[:, None]).all()
    assert ((places.met[1:] - places.met[:-1]).abs() == 1).all()
    assert (places.costs[0] == 0).all()
    assert (places.costs[1:] == 1).all()
    torch.testing.assert_close(places.degrees.flatten(), torch.tensor([0.5, 1.0, 1.0, 1.0, 0.5]))


def test_a_place_is_read_off_the_nodes_that_were_met_and_no_others() -> None:
    torch.manual_seed(0)
    places = WalkEmbedding(SpoTMambaConfig(**SMALL), chain(9)).eval()  # type: ignore[arg-type]
    met = {int(node) for node in places.met[:, 0].flatten()}
    assert met <= {0, 1, 2, 3}
    assert 1 in met
    with torch.no_grad():
        before = places()
        places.node.weight[8] += 1.0
        torch.testing.assert_close(places()[0], before[0], rtol=0, atol=0)
        places.node.weight[1, 0] += 1.0
        assert not torch.allclose(places()[0], before[0])


def test_without_walks_the_answer_is_another() -> None:
    model, without = made(), made(walks=0)
    without.load_state_dict({name: x for name, x in model.state_dict().items() if not name.startswith("places")})
    assert float((answer(model) - answer(without)).abs().max()) > 1e-3


def test_walks_taken_elsewhere_change_the_answer() -> None:
    model = made()
    before = answer(model)
    model.places.met.copy_(model.places.met[:1].expand_as(model.places.met))  # every walker stands still
    assert float((answer(model) - before).abs().max()) > 1e-4


def test_the_scan_over_time_sees_the_order_of_the_steps() -> None:
    """The attention and the narrowing treat each step by itself, so only the scan can carry one step to another."""
    model = made()
    seen: list[Tensor] = []
    model.narrow.register_forward_hook(lambda module, given, result: seen.append(result))
    inputs = window()
    answer(model, inputs)
    inputs.values[:, 2] += 1.0
    answer(model, inputs)
    same = torch.isclose(seen[0], seen[1], atol=1e-6).flatten(2).all(-1)
    assert same[:, :2].all()
    assert not same[:, 2:].any()


def test_the_attention_lets_every_node_see_the_others_of_its_window_only() -> None:
    model, inputs = made(), window()
    before = answer(model, inputs)
    inputs.values[0, :, 0] += 1.0
    changed = (answer(model, inputs) - before).abs().amax(dim=(1, 3))
    assert (changed[0] > 1e-6).all()
    assert (changed[1] == 0).all()


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(InputError, match="divisor of 4 × width"):
        SpoTMambaConfig(width=2, heads=3)


def test_the_published_recipe_is_a_valid_one() -> None:
    training = configure("spot-mamba", recipe="published").training
    assert (training.batch, training.milestones, training.factor) == (32, (20, 40, 60), 0.5)
