import math
from pathlib import Path

import numpy as np
import pytest
import torch

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import WindowConfig, split
from f2stnet.data.windows import Windows
from f2stnet.errors import InputError
from f2stnet.training import configure
from f2stnet.training.folder import RunFolder
from f2stnet.training.lesson import Lesson
from f2stnet.training.settings import RunConfig, TrainingConfig
from f2stnet.training.trainer import Trainer, label_loss
from small import waves


def windows() -> tuple[Windows, torch.Tensor]:
    series, config = waves(channels=2), WindowConfig(6, 4)
    parts = split(series, config)
    return Windows(series, fit_scaler(series, parts.train, 6, 4), 6, 4), torch.as_tensor(parts.train[:5])


def test_a_curriculum_counts_one_more_step_of_the_horizon_every_so_often() -> None:
    held, at = windows()
    lesson = Lesson(TrainingConfig(curriculum=2.0), 4, torch.device("cpu"))
    for step, counted in ((0, 1), (9, 1), (10, 2), (35, 4), (1000, 4)):
        lesson.at(step, 5)
        assert int(lesson.labels(held.labels(at)).observed.any(dim=3).all(dim=2).all(dim=0).sum()) == counted


def test_without_a_curriculum_every_label_counts() -> None:
    held, at = windows()
    lesson = Lesson(TrainingConfig(), 4, torch.device("cpu"))
    lesson.at(0, 5)
    assert lesson.labels(held.labels(at)).observed.all()


class Decoder(torch.nn.Module):
    def forward(self, inputs: object) -> torch.Tensor:
        return torch.zeros(5, 4, 4, 2)

    def decode(self, inputs: object, truth: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        return truth + share


def test_scheduled_sampling_hands_over_scaled_truth_with_a_falling_share() -> None:
    held, at = windows()
    lesson, labels = Lesson(TrainingConfig(sampling=50.0), 4, torch.device("cpu")), held.labels(at)
    scaled = (labels.values - held.target_mean) / held.target_deviation
    for step in (0, 100, 10_000_000):
        lesson.at(step, 5)
        share = 50 / (50 + math.exp(min(step / 50, 700)))
        found = lesson.forecast(Decoder(), held.inputs(at), labels, held)
        torch.testing.assert_close(found, scaled + share)
    plain = Lesson(TrainingConfig(), 4, torch.device("cpu"))
    assert float(plain.forecast(Decoder(), held.inputs(at), labels, held).abs().max()) == 0


def test_hubers_delta_in_real_units_by_hand() -> None:
    held, at = windows()
    labels = held.labels(at)
    config = TrainingConfig(loss="huber", huber_delta=1.0, loss_units="real")
    for miss, each in ((0.5, 0.125), (3.0, 2.5)):  # δ = 1: half the square below it, |e| − ½ above
        forecast = (labels.values + miss - held.target_mean) / held.target_deviation
        loss, count = label_loss(forecast, labels, held, config)
        assert float(loss / count) == pytest.approx(each, rel=1e-4)
    loss, count = label_loss(forecast, labels, held, TrainingConfig(loss="mae"))  # in deviations by default
    assert float(loss / count) == pytest.approx(float((3.0 / held.target_deviation).mean()), rel=1e-4)


def test_rates_by_milestones_and_warm_up(tmp_path: Path) -> None:
    held, _ = windows()
    series, config = waves(channels=2), WindowConfig(6, 4)
    trained = TrainingConfig(schedule="steps", milestones=(3, 5), factor=0.1, warmup=2, learning_rate=1.0)
    trainer = Trainer(torch.nn.Linear(1, 1), held, split(series, config), trained, 0, RunFolder(tmp_path))
    rates = [trainer._set_rate(epoch) for epoch in range(1, 7)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.1, 0.1, 0.01])


def test_a_recipe_is_named_and_survives_the_config_file() -> None:
    from f2stnet.models import models

    with pytest.raises(InputError, match="no published recipe"):
        configure("stid", recipe="published")
    entry = models.find("stid")
    recipe = {"training": {"batch": 7, "optimiser": "adamw"}, "model": {"dropout": 0.4}}
    models["with-recipe"] = type(entry)("with-recipe", entry.make, entry.config, "", {}, {}, recipe)
    try:
        run = configure("with-recipe", recipe="published", sections={"training": {"batch": 9}})
        assert (run.training.batch, run.training.optimiser, run.settings.dropout) == (9, "adamw", 0.4)
        again = RunConfig.from_table(run.to_table() | {"data": {"source": "x"}}, "test")
        assert again.recipe == "published"
        assert again.training == run.training
        assert np.isclose(again.settings.dropout, 0.4)
    finally:
        del models["with-recipe"]
