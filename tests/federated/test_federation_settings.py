"""What a federation's settings say of training."""

from dataclasses import replace

import pytest

from f2stnet.config import as_dict
from f2stnet.errors import InputError
from f2stnet.federated.settings import ELSEWHERE, configure_federation
from f2stnet.models import models
from f2stnet.training.settings import TrainingConfig


@pytest.mark.parametrize("key", ELSEWHERE)
def test_what_means_nothing_in_a_federation_is_refused(key: str) -> None:
    value = as_dict(TrainingConfig())[key]
    with pytest.raises(InputError, match=rf"^training\.{key} means nothing in a federation: {ELSEWHERE[key]}$"):
        configure_federation(sections={"training": {key: value}})


def test_orthogonal_steps_are_refused_as_clients_keep_moments_of_adam() -> None:
    with pytest.raises(
        InputError, match=r"^training\.optimiser = 'muon': clients descend by adam or adamw; leave it out$"
    ):
        configure_federation(sections={"training": {"optimiser": "muon"}})


def test_clients_descend_by_adamw_where_a_run_takes_orthogonal_steps() -> None:
    training = configure_federation().run.training
    assert (training.optimiser, training.weight_decay) == ("adamw", 0.3)
    asked = configure_federation(sections={"training": {"weight_decay": 0.6}}).run.training
    assert (asked.optimiser, asked.weight_decay) == ("adamw", 0.6)
    named = configure_federation(sections={"training": {"optimiser": "adamw"}}).run.training
    assert named == training
    own = configure_federation(model="paper").run.training  # what a model asks for itself stays
    assert (own.optimiser, own.weight_decay) == ("adam", 0.0)


def test_the_weight_decay_of_a_model_of_ones_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models, "own", replace(models.find("stid"), training={"weight_decay": 0.01}))
    training = configure_federation(model="own").run.training
    assert (training.optimiser, training.weight_decay) == ("adamw", 0.01)


def test_the_settings_of_a_federation_claim_nothing_that_it_does_not_do() -> None:
    training = configure_federation().run.training
    assert (training.average, training.least_steps, training.jitter, training.compile) == (0.0, 0, 0.0, False)


def test_frequencies_are_mixed_in_the_blocks_only_where_that_is_asked_for() -> None:
    """The comparison of methods was made without."""
    assert configure_federation().run.settings.mixing == 0
    assert configure_federation(sections={"model": {"mixing": 8}}).run.settings.mixing == 8
    assert not hasattr(configure_federation(model="stid").run.settings, "mixing")
