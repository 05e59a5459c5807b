"""Settings of a run: whose recipe it starts from, and what a model can read."""

import re

import pytest

from f2stnet.errors import InputError
from f2stnet.models import models
from f2stnet.training import configure
from f2stnet.training.settings import RunConfig, TrainingConfig

# Optimiser and weight decay of each paper's recipe. Where a paper names neither: plain Adam.
PUBLISHED = {
    "cy2mixer": ("adamw", 5e-4),
    "ddgcrn": ("adam", 0.0),
    "lightcts": ("adam", 1e-4),
    "multispans": ("adam", 0.0),
    "pdformer": ("adamw", 0.05),
    "pdg2seq": ("adam", 0.0),
    "spot-mamba": ("adam", 1e-3),
    "staeformer": ("adam", 5e-4),
    "stg-mamba": ("adamw", 0.01),
    "stg-ncde": ("adam", 1e-3),
}


def test_every_published_recipe_is_checked_here() -> None:
    assert {name for name, entry in models.items() if entry.published} == set(PUBLISHED)


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_published_recipe_has_nothing_of_the_common_one(model: str) -> None:
    training = configure(model, recipe="published").training
    assert (training.optimiser, training.weight_decay) == PUBLISHED[model]
    assert (training.average, training.least_steps) == (0, 0)
    named = (models.find(model).published or {})["training"]
    assert {"epochs", "batch", "learning_rate", "schedule", "patience", "clip"} <= set(named)


@pytest.mark.parametrize("model", PUBLISHED)
def test_what_is_set_by_hand_goes_before_a_published_recipe(model: str) -> None:
    by_hand = {"training": {"optimiser": "adamw", "weight_decay": 0.7, "average": 0.9}}
    training = configure(model, sections=by_hand, recipe="published").training
    assert (training.optimiser, training.weight_decay, training.average) == ("adamw", 0.7, 0.9)


@pytest.mark.parametrize("model", ["f2stnet", "stid", "staeformer"])
def test_the_common_recipe_is_the_same_for_all(model: str) -> None:
    assert configure(model).training == configure("linear").training


@pytest.mark.parametrize("average", [-0.1, 1.0])
def test_an_average_that_never_moves_is_refused(average: float) -> None:
    with pytest.raises(InputError, match=f"average = {average}: expected 0 or more and below 1"):
        configure("stid", sections={"training": {"average": average}})


@pytest.mark.parametrize(("seed", "expected"), [(-1, "a number that is not negative"), (2**64, "a number below 2^64")])
def test_a_seed_that_no_generator_takes_is_refused(seed: int, expected: str) -> None:
    with pytest.raises(InputError, match=f"^seed = {seed}: expected {re.escape(expected)}$"):
        configure("stid", seed)
    assert configure("stid", 2**64 - 1).seed == 2**64 - 1


@pytest.mark.parametrize(
    ("windows", "batch"), [(64 * 32, 64), (10_000, 64), (64 * 32 - 1, 63), (643, 20), (8 * 32, 8), (100, 8), (1, 8)]
)
def test_where_windows_are_few_batches_are_smaller(windows: int, batch: int) -> None:
    assert TrainingConfig(least_steps=32).batch_of(windows) == batch
    assert TrainingConfig(least_steps=0).batch_of(windows) == 64
    assert TrainingConfig(least_steps=32, batch=4).batch_of(windows) == 4


@pytest.mark.parametrize("model", sorted(set(models) - {"f2stnet"}))
def test_earlier_days_are_refused_by_models_that_do_not_read_them(model: str) -> None:
    assert configure(model).window.days == 0
    with pytest.raises(InputError, match=rf"^window\.days = 7: model '{model}' reads no earlier days; leave it out$"):
        configure(model, sections={"window": {"days": 7}})


@pytest.mark.parametrize("settings", [{}, {"state_space": False}, {"variant": "paper"}], ids=str)
@pytest.mark.parametrize("days", [0, 3, None])
def test_f2stnet_takes_any_number_of_earlier_days(settings: dict[str, object], days: int | None) -> None:
    """Also without the part that reads them: leaving that out is a setting of the model, not of the windows."""
    sections = {"model": settings} | ({} if days is None else {"window": {"days": days}})
    run = configure("f2stnet", sections=sections)
    assert run.window.days == (7 if days is None else days)
    assert RunConfig.from_table(run.to_table() | {"data": {"source": "x"}}, "test").window == run.window


def test_a_run_from_before_these_keys_does_what_it_did() -> None:
    table = configure("f2stnet").to_table() | {"data": {"source": "x"}}
    table["training"]["jitter"] = 0.1
    now = RunConfig.from_table(table, "test")
    del table["model"]["bridge"], table["model"]["mixing"]
    for key in ("optimiser", "least_steps", "average", "jitter"):
        del table["training"][key]
    then = RunConfig.from_table(table, "test")
    assert (now.settings.bridge, now.settings.mixing) == (True, 32)
    assert (then.settings.bridge, then.settings.mixing) == (False, 0)
    assert (now.training.least_steps, now.training.average) == (32, 0.99)
    assert (then.training.least_steps, then.training.average) == (0, 0.0)
    assert (now.training.jitter, then.training.jitter) == (0.1, 0.0)
    assert (now.training.optimiser, then.training.optimiser) == ("muon", "adam")
