import pytest

from f2stnet.errors import InputError
from f2stnet.federated.methods import compose, methods

NAMES = {
    "fedavg", "fedprox", "moon", "fedopt", "fedproc", "fedsage", "fedproto", "fggp", "ffa", "ffa-robust", "local",
    "pooled", "qfedavg", "afl", "ditto", "fedavgm",
}  # fmt: skip


def test_every_method_of_the_list_is_there() -> None:
    assert set(methods) == NAMES


def test_objectives_add_up_and_meet_a_weighting_and_an_optimiser() -> None:
    made = compose("fedprox+moon+ffa+fedopt", {"fedprox": {"mu": 0.5}, "fedopt": {"optimiser": "yogi"}})
    assert len(made.objectives) == 2
    assert made.settings["fedprox"].mu == 0.5
    assert type(made.weighting).__name__ == "FairWeights"
    assert made.optimiser is not None
    assert made.name == "fedprox+moon+ffa+fedopt"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("ffa+afl", "weights clients"),
        ("ffa+ffa", "twice"),
        ("local+ffa", "stands alone"),
        ("pooled+fedprox", "stands alone"),
        ("fedavg+ffa", "weights clients"),
        ("fedavgg", "did you mean 'fedavg'"),
        ("ffa+", "unknown method"),
    ],
)
def test_what_does_not_compose_is_refused_by_name(spec: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        compose(spec)


def test_settings_of_a_method_that_is_not_part_of_it_are_refused() -> None:
    with pytest.raises(InputError, match="'moon', which is not part"):
        compose("ffa", {"moon": {"mu": 1.0}})
    with pytest.raises(InputError, match=r"ffa\.maximum"):
        compose("ffa", {"ffa": {"maximum": "much"}})
    with pytest.raises(InputError, match="below 1"):
        compose("ffa", {"ffa": {"maximum": 1.0}})


def test_each_call_composes_parts_with_a_memory_of_their_own() -> None:
    assert compose("ffa-robust").weighting is not compose("ffa-robust").weighting


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_method_declares_what_leaves_a_client(name: str) -> None:
    sent = {item.name for item in compose(name).sends}
    assert ("arrays" in sent) == (name != "local")
    assert {"metrics.num-examples", "metrics.loss"} <= sent
    assert ("metrics.initial-loss" in sent) == (name in ("qfedavg", "afl"))
