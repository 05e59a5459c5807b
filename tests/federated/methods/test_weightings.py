"""FedAvg, FFA, ffa-robust, q-FedAvg and AFL: how each turns reports into weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.errors import InputError
from f2stnet.federated.methods import compose
from f2stnet.federated.methods.afl import AFLConfig, AgnosticWeights, onto_simplex
from f2stnet.federated.methods.fedavg import prior
from f2stnet.federated.methods.ffa import FairWeights, FFAConfig, fair_weights
from f2stnet.federated.methods.ffa_robust import FFARobustConfig, RobustWeights, bounded
from f2stnet.federated.methods.parts import Report
from f2stnet.federated.methods.qfedavg import PowerWeights, QFedAvgConfig

COUNTS = st.lists(st.integers(1, 10_000), min_size=2, max_size=12)
LOSS = st.floats(0, 1e6, allow_nan=False)


def reports(counts: list[int], losses: list[float], **fields: float) -> list[Report]:
    return [Report(k, n, loss, **fields) for k, (n, loss) in enumerate(zip(counts, losses, strict=True))]


def test_fedavg_weights_by_counts() -> None:
    weights = compose("fedavg").weighting.coefficients(0, reports([1, 3], [9.0, 1.0]))
    assert weights.tolist() == [0.25, 0.75]


def test_ffa_by_hand() -> None:
    """L̄ = 2, r = (−.5, .5); q = (.5·.9, .5·1.1) at λ = .2."""
    assert fair_weights(np.array([0.5, 0.5]), np.array([1.0, 3.0]), 0.2) == pytest.approx([0.45, 0.55])
    # With unequal p the sum of q is not 1 and must be normalised: q = (.8·.9, .2·1.1) = (.72, .22).
    assert fair_weights(np.array([0.8, 0.2]), np.array([1.0, 3.0]), 0.2) == pytest.approx([0.72 / 0.94, 0.22 / 0.94])


def test_ffa_follows_its_schedule_from_round_to_round() -> None:
    rule = FairWeights(FFAConfig())
    early, late = (rule.coefficients(t, reports([1, 1], [1.0, 3.0])) for t in (0, 1000))
    assert early == pytest.approx([0.5 * (1 - 0.03 * 0.5), 0.5 * (1 + 0.03 * 0.5)])
    assert late == pytest.approx([0.45, 0.55])
    assert rule.facts(2) == {"lambda": pytest.approx(0.04)}


@given(COUNTS, st.data())
def test_ffa_weights_are_positive_sum_to_one_and_follow_the_losses(counts: list[int], data: st.DataObject) -> None:
    losses = np.array(data.draw(st.lists(LOSS, min_size=len(counts), max_size=len(counts))))
    lam = data.draw(st.floats(0, 0.99))
    p = prior(reports(counts, losses.tolist()))
    w = fair_weights(p, losses, lam)
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1)
    ratio = w / p
    order = np.argsort(losses, kind="stable")
    assert (np.diff(ratio[order]) >= -1e-9).all()


def test_ffa_of_equal_or_zero_losses_is_fedavg() -> None:
    p = np.array([0.2, 0.8])
    assert fair_weights(p, np.array([5.0, 5.0]), 0.9) == pytest.approx(p)
    assert fair_weights(p, np.array([0.0, 0.0]), 0.9) == pytest.approx(p)  # ε, not a division by zero


@pytest.mark.parametrize("loss", [-0.1, float("nan"), float("inf")])
def test_ffa_refuses_a_loss_that_is_none(loss: float) -> None:
    with pytest.raises(InputError, match="finite losses"):
        fair_weights(np.array([0.5, 0.5]), np.array([1.0, loss]), 0.1)


def test_scale_free_ffa_divides_by_the_clients_own_deviation() -> None:
    told = [Report(0, 1, 1.0, scale=1.0), Report(1, 1, 3.0, scale=3.0)]
    assert FairWeights(FFAConfig(scale_free=True)).coefficients(50, told) == pytest.approx([0.5, 0.5])
    assert FairWeights(FFAConfig()).coefficients(50, told) == pytest.approx([0.45, 0.55])


@given(COUNTS, st.data())
def test_no_report_takes_a_client_over_its_bound(counts: list[int], data: st.DataObject) -> None:
    """The guarantee of ffa-robust: 0 ≤ w_k ≤ bound · p_k and Σ w = 1, whatever is reported, round after round."""
    bound = data.draw(st.floats(1, 4))
    rule = RobustWeights(FFARobustConfig(bound=bound, memory=data.draw(st.floats(0.05, 1))))
    for t in range(4):
        losses = data.draw(st.lists(LOSS, min_size=len(counts), max_size=len(counts)))
        told = reports(counts, losses)
        here = [told[k] for k in sorted(data.draw(st.sets(st.sampled_from(range(len(told))), min_size=1)))]
        w, p = rule.coefficients(t, here), prior(here)
        assert (w >= 0).all()
        assert (w <= bound * p * (1 + 1e-9)).all()
        assert w.sum() == pytest.approx(1)


def test_bounded_gives_what_is_cut_off_to_the_others() -> None:
    p = np.array([0.25, 0.25, 0.5])
    assert bounded(np.array([10.0, 0.25, 0.5]), p, 2.0) == pytest.approx([0.5, 0.5 / 3, 1.0 / 3])
    assert bounded(p, p, 1.0) == pytest.approx(p)


def test_ffa_robust_remembers_clients_that_sat_out() -> None:
    rule = RobustWeights(FFARobustConfig(memory=0.5, schedule="fixed", maximum=0.5, initial=0.1, power=1.0))
    rule.coefficients(0, reports([1, 1, 1], [1.0, 1.0, 3.0]))
    weights = rule.coefficients(1, reports([1, 1, 1], [1.0, 1.0, 1.0])[1:])  # client 2 now reports 1, its memory is 2
    raw = np.array([0.5, 0.5 * 1.5])
    assert weights == pytest.approx(raw / raw.sum())
    again = RobustWeights(rule.config)
    again.restore(rule.state())
    assert again.remembered == rule.remembered


def test_power_makes_ffa_robust_follow_the_losses_more_sharply() -> None:
    told = reports([1, 1, 1], [1.0, 2.0, 3.0])
    gentle, sharp = (
        RobustWeights(FFARobustConfig(power=power, schedule="fixed", maximum=0.5, bound=9.0)).coefficients(0, told)
        for power in (1.0, 2.0)
    )
    raw = np.array([0.75, 1.0, 1.25])
    assert gentle == pytest.approx(raw / raw.sum())
    assert sharp == pytest.approx(raw**2 / (raw**2).sum())


def test_one_liar_moves_ffa_robust_less_than_ffa() -> None:
    honest, lie = [1.0] * 10, [1.0] * 9 + [1e5]
    p = prior(reports([1] * 10, honest))
    plain = FairWeights(FFAConfig(maximum=0.95, initial=0.95)).coefficients(0, reports([1] * 10, lie))
    robust = RobustWeights(FFARobustConfig(maximum=0.95, initial=0.95)).coefficients(0, reports([1] * 10, lie))
    assert plain[-1] / p[-1] > 5
    assert robust[-1] / p[-1] <= 3 + 1e-9


def test_qfedavg_by_hand() -> None:
    """q = 1, L = 2, F = (1, 3), ‖Θ−Θ_k‖² = (.5, .25): h = L²·moved + L·F = (4, 7), c = L·F / Σh."""
    told = [Report(0, 1, 0.0, 1.0, 0.5), Report(1, 1, 0.0, 3.0, 0.25)]
    found = PowerWeights(QFedAvgConfig(q=1.0, lipschitz=2.0)).coefficients(0, told)
    assert found == pytest.approx([2 / 11, 6 / 11])
    even = PowerWeights(QFedAvgConfig(q=0.0)).coefficients(0, told)
    assert even == pytest.approx([0.5, 0.5])  # q = 0 is FedAvg
    large = [Report(0, 3, 0.0, 1.0, 0.5), Report(1, 1, 0.0, 3.0, 0.25)]  # p = (.75, .25): Σ p h = 4.75
    found = PowerWeights(QFedAvgConfig(q=1.0, lipschitz=2.0)).coefficients(0, large)
    assert found == pytest.approx([1.5 / 4.75, 1.5 / 4.75])
    assert PowerWeights(QFedAvgConfig(q=0.0)).coefficients(0, large) == pytest.approx([0.75, 0.25])


def test_afl_climbs_towards_the_worst_client_and_stays_on_the_simplex() -> None:
    rule = AgnosticWeights(AFLConfig(step=0.1))
    told = [Report(0, 1, 0.0, 1.0), Report(1, 1, 0.0, 2.0)]
    first = rule.coefficients(0, told)
    assert first == pytest.approx([0.45, 0.55])  # (.5+.1, .5+.2) projected
    for t in range(20):
        last = rule.coefficients(t, told)
    assert last == pytest.approx([0.0, 1.0])
    alone = rule.coefficients(21, told[:1])  # its λ is 0: the round falls back to the prior
    assert alone == pytest.approx([1.0])


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_the_projection_is_the_nearest_point_of_the_simplex(x: list[float]) -> None:
    found = onto_simplex(np.array(x))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    random = np.random.default_rng(0)
    for other in random.dirichlet(np.ones(len(x)), size=20):
        assert np.square(found - x).sum() <= np.square(other - x).sum() + 1e-9
