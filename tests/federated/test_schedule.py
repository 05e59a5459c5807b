import pytest

from f2stnet.errors import InputError
from f2stnet.federated.schedule import ScheduleConfig, schedules


def test_reverse_annealing_is_the_papers_equation() -> None:
    lam = schedules.find("reverse-annealing").make(ScheduleConfig(0.03, 0.2, 0.005))
    assert lam(0) == 0.03
    assert lam(10) == pytest.approx(0.08)
    assert lam(34) == pytest.approx(0.2)
    assert lam(1000) == 0.2


def test_the_other_schedules_go_where_they_say() -> None:
    config = ScheduleConfig(0.1, 0.9, 0.01, rounds=20)
    fixed, decaying, cosine = (schedules.find(name).make(config) for name in ("fixed", "decaying", "cosine"))
    assert [fixed(0), fixed(99)] == [0.9, 0.9]
    assert decaying(0) == 0.9
    assert decaying(10) == pytest.approx(0.8)
    assert decaying(1000) == 0.1
    assert cosine(0) == pytest.approx(0.1)
    assert cosine(10) == pytest.approx(0.5)
    assert cosine(20) == pytest.approx(0.9)
    assert cosine(50) == pytest.approx(0.9)


@pytest.mark.parametrize("wrong", [{"maximum": 1.0}, {"initial": 0.5}, {"slope": -0.1}, {"initial": -0.1}])
def test_a_lambda_that_could_turn_a_weight_negative_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        ScheduleConfig(**wrong)
