"""Where a run's files go, who gets the place, and what is left of a run that never began."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from f2stnet.errors import InputError
from f2stnet.federated.folder import FederationFolder
from f2stnet.training import fit
from f2stnet.training.folder import RunFolder, free_folder, give_back
from small import waves
from training.test_fit import small

ASK = "import os; from f2stnet.training.folder import free_folder; print(free_folder('a', 'b')); os.chdir('/')"


def test_runs_that_are_prepared_at_the_same_time_get_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks for its folder before any of them has begun."""
    monkeypatch.chdir(tmp_path)
    folders = [free_folder("waves", "last-value") for _ in range(3)]
    assert [folder.name for folder in folders] == [f"waves-last-value-{number}" for number in (1, 2, 3)]
    runs = [fit(waves(), small("last-value"), folder) for folder in folders]
    for run in runs:
        give_back(run.folder)
        assert (run.folder / "metrics.json").is_file()


def test_a_process_that_begins_nothing_keeps_no_folder(tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", ASK], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == "runs/a-b-1\n"
    assert not any((tmp_path / "runs").iterdir())


def test_a_folder_is_given_back_once_and_only_by_who_took_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = free_folder("a", "b")
    give_back(folder)
    assert not folder.exists()
    folder.mkdir()  # as another process does, which found the number free
    give_back(folder)
    assert folder.exists()


@pytest.mark.parametrize("stopped_at", ["graph.npz", "series.json", "last.safetensors", "config.toml"])
def test_a_start_that_is_stopped_on_the_way_leaves_the_place_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: str
) -> None:
    series, config = waves(), small("stid", epochs=1)
    earlier, rename = fit(series, config, tmp_path / "earlier"), Path.replace

    def stop(self: Path, target: Path) -> Path:
        if target.name == stopped_at:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        fit(series, config, tmp_path / "run", start_from=earlier)
    assert list((tmp_path / "run").iterdir()) == []
    monkeypatch.undo()
    fit(series, config, tmp_path / "run", start_from=earlier)


@pytest.mark.parametrize("name", ["graph.npz", "series.json", "last.safetensors"])
def test_a_strangers_file_is_not_taken_for_one_that_a_start_left(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("years of work")
    with pytest.raises(InputError, match="exists and is not empty"):
        fit(waves(), small("last-value"), tmp_path)
    assert (tmp_path / name).read_text() == "years of work"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full")
def test_a_full_disk_under_a_log_is_told_with_the_logs_name(tmp_path: Path) -> None:
    for name, append in (
        ("log.jsonl", RunFolder(tmp_path).append_log),
        ("rounds.jsonl", FederationFolder(tmp_path).append_round),
    ):
        (tmp_path / name).symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left on device") as wrong:
            append({"epoch": 1})
        assert (wrong.value.errno, wrong.value.filename) == (errno.ENOSPC, str(tmp_path / name))
