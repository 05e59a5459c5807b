from pathlib import Path

import torch

from f2stnet.federated.client_state import ClientState


def test_a_round_that_is_asked_again_finds_the_state_before_it(tmp_path: Path) -> None:
    state = ClientState(tmp_path / "k")
    assert state.before(5) == {}
    for t in (1, 2, 3):
        state.save(t, {"x": torch.tensor([float(t)])}, best=1, counted=t - 1)
    assert state.before(3)["x"].item() == 3
    assert state.before(2)["x"].item() == 2  # the killed server asks for round 3 again


def test_the_best_rounds_state_stays_and_older_ones_go(tmp_path: Path) -> None:
    state = ClientState(tmp_path / "k")
    for t in range(1, 9):
        state.save(t, {"x": torch.tensor([float(t)])}, best=3, counted=t - 1)
    assert state.before(3)["x"].item() == 3
    assert sorted(path.name for path in (tmp_path / "k").iterdir()) == [f"round-{t}.safetensors" for t in (3, 7, 8)]


def test_the_last_round_that_counted_stays_while_others_are_skipped(tmp_path: Path) -> None:
    state = ClientState(tmp_path / "k")
    for t in range(1, 9):
        state.save(t, {"x": torch.tensor([float(t)])}, best=3, counted=min(t - 1, 5))  # rounds 6 to 8 are skipped
    assert state.before(5)["x"].item() == 5  # what a server asks for that gave up and goes on
    assert state.before(3)["x"].item() == 3


def test_nothing_kept_is_nothing_written(tmp_path: Path) -> None:
    ClientState(tmp_path / "k").save(1, {}, best=0, counted=0)
    assert not (tmp_path / "k").exists()
