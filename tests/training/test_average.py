"""Averaged weights: their recursion, and that they are what is validated and kept."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

from f2stnet.series import GraphSeries
from f2stnet.training import Run, fit
from f2stnet.training.average import Average, running_statistics
from f2stnet.training.evaluate import validation_loss
from f2stnet.training.trainer import Trainer, under
from small import waves
from training.test_fit import figures, log_of, small


class Stop(Exception):
    pass


def walked(average: Average, steps: int, seed: int = 0) -> None:
    """Weights that take `steps` random steps, the average after each."""
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        with torch.no_grad():
            for parameter in average.parameters:
                parameter += torch.randn(parameter.shape, generator=random)
        average.update()


@given(decay=st.sampled_from([0.5, 0.9, 0.99]), steps=st.integers(1, 1500))
def test_the_recursion_written_out(decay: float, steps: int) -> None:
    """w̄ ← w̄ + a_t (w − w̄), a_t = max(1 − decay, 10 / (10 + t))."""
    weights = nn.Parameter(torch.zeros(()))
    average, by_hand = Average([weights], decay), 0.0
    for t in range(1, steps + 1):
        weights.data.fill_(t % 7)
        average.update()
        by_hand += max(1 - decay, 10 / (10 + t)) * (t % 7 - by_hand)
    assert float(average.shadow[0]) == pytest.approx(by_hand, rel=1e-4, abs=1e-4)


def test_it_starts_as_the_weights_and_follows_them_closely_at_first() -> None:
    weights = nn.Parameter(torch.ones(3))
    average = Average([weights], 0.99)
    assert torch.equal(average.shadow[0], torch.ones(3))
    weights.data.fill_(12.0)
    average.update()
    torch.testing.assert_close(average.shadow[0], torch.full((3,), 11.0))  # 1 + 10/11 · 11
    assert torch.equal(weights.data, torch.full((3,), 12.0))


def test_in_use_puts_the_weights_back_also_after_an_exception() -> None:
    parameters = [nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(4))]
    average = Average(parameters, 0.99)
    walked(average, 20)
    own = [parameter.detach().clone() for parameter in parameters]
    places = [parameter.data_ptr() for parameter in parameters]

    @average.in_use()
    def fail() -> None:
        for parameter, mean, before in zip(parameters, average.shadow, own, strict=True):
            assert torch.equal(parameter, mean)
            assert not torch.equal(parameter, before)
        raise Stop

    with pytest.raises(Stop):
        fail()
    for parameter, before in zip(parameters, own, strict=True):
        assert torch.equal(parameter, before)
    assert [parameter.data_ptr() for parameter in parameters] == places  # recorded steps read these


def test_untouched_takes_back_the_average_and_its_clock_also_after_an_exception() -> None:
    average = Average([nn.Parameter(torch.zeros(3))], 0.99)
    walked(average, 5)
    before, steps = average.shadow[0].clone(), float(average.steps)

    @average.untouched()
    def fail() -> None:
        walked(average, 3, seed=1)
        assert not torch.equal(average.shadow[0], before)
        raise Stop

    with pytest.raises(Stop):
        fail()
    assert torch.equal(average.shadow[0], before)
    assert float(average.steps) == steps == 5


def test_a_stored_average_goes_on_as_if_nothing_had_happened() -> None:
    whole, other = (Average([nn.Parameter(torch.zeros(3))], 0.95) for _ in range(2))
    walked(whole, 30)
    with torch.no_grad():
        other.parameters[0].copy_(whole.parameters[0])
    other.load({name: tensor.clone() for name, tensor in whole.state().items()})
    for average in (whole, other):
        walked(average, 10, seed=2)
    assert torch.equal(whole.shadow[0], other.shadow[0])


def test_what_batch_normalisation_has_seen_is_averaged_with_the_weights() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = Average([*model.parameters(), *running_statistics(model)], 0.99)
    for _ in range(5):
        model(torch.randn(8, 2) + 4)
        average.update()
    seen = model[1].running_mean.clone()
    with average.in_use():
        assert torch.equal(model[1].running_mean, average.shadow[-2])
        assert not torch.equal(model[1].running_mean, seen)
    assert torch.equal(model[1].running_mean, seen)


@pytest.fixture(scope="module")
def series() -> GraphSeries:
    return waves(missing_share=0.05)


@pytest.fixture(scope="module")
def run(series: GraphSeries, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fit(series, small("stid", epochs=3), tmp_path_factory.mktemp("average") / "run")


def test_a_resumed_run_ends_with_the_numbers_of_one_that_was_not_interrupted(
    series: GraphSeries, run: Run, tmp_path: Path
) -> None:
    assert run.config.training.average == 0.99

    def stop(event: str, facts: dict[str, object]) -> None:
        if event == "batch" and facts["epoch"] == 3 and facts["done"] == 2:
            raise Stop

    with pytest.raises(Stop):
        fit(series, run.config, tmp_path / "cut", listen=stop)
    resumed = fit(series, run.config, tmp_path / "cut", resume=True)
    assert log_of(resumed.folder) == log_of(run.folder)
    assert figures(resumed) == figures(run)
    whole, again = (load_file(one.folder / "last.safetensors") for one in (run, resumed))
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_what_is_kept_is_averaged_and_what_goes_on_is_not(run: Run) -> None:
    assert run.metrics["best_epoch"] == run.metrics["epochs"]  # best and last are of the same epoch
    best, last = (load_file(run.folder / f"{name}.safetensors") for name in ("best", "last"))
    raw = under("model.", last)
    for index, (name, _) in enumerate(run.model.named_parameters()):
        assert torch.equal(best[name], last[f"average.{index}"]), name
        assert not torch.equal(best[name], raw[name]), name


def test_the_averaged_weights_are_the_ones_that_are_validated(
    series: GraphSeries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(self: Trainer, *given: object) -> None:
        begin(self, *given)
        trainers.append(self)

    def validate(*given: object) -> tuple[float, float]:
        (trainer,) = trainers
        seen.append(all(torch.equal(*pair) for pair in zip(trainer.parameters, trainer.average.shadow, strict=True)))
        return validation_loss(*given)

    trainers, begin = list[Trainer](), Trainer.__init__
    monkeypatch.setattr(Trainer, "__init__", watched)
    monkeypatch.setattr("f2stnet.training.trainer.validation_loss", validate)
    fit(series, small("stid", epochs=2), tmp_path / "run")
    assert seen == [True, True]


def test_without_an_average_nothing_of_it_is_stored(series: GraphSeries, run: Run, tmp_path: Path) -> None:
    plain = fit(series, small("stid", epochs=3, average=0.0), tmp_path / "plain")
    last = load_file(plain.folder / "last.safetensors")
    assert not under("average.", last)
    best = load_file(plain.folder / "best.safetensors")
    assert plain.metrics["best_epoch"] == plain.metrics["epochs"]
    assert all(torch.equal(best[name], tensor) for name, tensor in under("model.", last).items())
    trained = [[line["train_loss"] for line in log_of(one.folder)] for one in (plain, run)]
    assert trained[0] == trained[1]  # the average is looked at, never trained from
    assert log_of(plain.folder) != log_of(run.folder)
