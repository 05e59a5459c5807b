"""Files of a federated run's folder that were cut off, or lack something: one line each, by name."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from f2stnet.cli import app
from f2stnet.errors import InputError
from f2stnet.federated.folder import FederationFolder
from f2stnet.federated.settings import configure_federation
from f2stnet.federated.simulation import federate
from small import waves


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sections = {"model": {"width": 4}, "partition": {"kind": "regime", "clients": 2}, "federation": {"rounds": 1}}
    folder = tmp_path_factory.mktemp("damaged") / "run"
    federate(waves(), configure_federation("afl", "stid", 0, {}, sections), folder)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without(line: str) -> Callable[[Path], None]:
    return lambda path: path.write_text("".join(x for x in path.read_text().splitlines(True) if not x.startswith(line)))


def more(after: str, line: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(path.read_text().replace(after, f"{after}\n{line}"))


def headless(path: Path) -> None:
    save_file(load_file(path), path)


def read_all(folder: Path) -> None:
    place = FederationFolder(folder)
    assert place.federation()
    assert place.saved()
    assert place.rounds()


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("federation.toml", without("clients"), "damaged: it lacks 'clients'"),
        ("federation.toml", without("method"), "damaged: it lacks 'method'"),
        ("federation.toml", without("[federation]"), "damaged: it lacks 'federation'"),
        ("federation.toml", lambda path: path.write_text("method = 3\nclients = 2\n[federation]\n"), "damaged: "),
        ("federation.toml", more("[federation]", "colour = 3"), "unknown key 'federation.colour'"),
        ("server.safetensors", half, "damaged: "),
        ("server.safetensors", lambda path: path.write_bytes(b""), "damaged: "),
        ("server.safetensors", headless, "damaged: it lacks 'standing'"),
        ("rounds.jsonl", half, "damaged: "),
    ],
)
def test_a_damaged_file_is_one_line_that_names_it(
    folder: Path, name: str, damage: Callable[[Path], None], why: str
) -> None:
    read_all(folder)
    damage(folder / name)
    with pytest.raises(InputError) as told:
        read_all(folder)
    assert str(told.value).startswith(f"{folder / name}: {why}")
    assert "\n" not in str(told.value)


def test_a_checkpoint_of_another_method_is_not_gone_on_from(folder: Path) -> None:
    tensors, standing = FederationFolder(folder).saved() or pytest.fail("nothing saved")
    standing.weighting, standing.ended = {}, ""
    FederationFolder(folder).save(tensors, standing)
    (folder / "metrics.json").unlink()
    with pytest.raises(InputError, match=r"server\.safetensors: damaged: it lacks 'mixture'"):
        federate(waves(), FederationFolder(folder).federation(), folder, resume=True)


def test_a_run_without_its_number_of_clients_is_not_resumed(folder: Path) -> None:
    without("clients")(folder / "federation.toml")
    result = CliRunner().invoke(app, ["federate", "--resume", "--out", str(folder)])
    assert isinstance(result.exception, InputError)
    assert f"{folder / 'federation.toml'}: damaged: it lacks 'clients'" in str(result.exception)


@pytest.mark.parametrize("content", ["{", "{}", '{"card": {}, "graph": {}}', '{"card": 3, "graph": []}'])
def test_a_run_with_a_damaged_manifest_is_not_resumed(folder: Path, content: str) -> None:
    (folder / "manifest.json").write_text(content)
    result = CliRunner().invoke(app, ["federate", "--engine", "superlink", "--resume", "--out", str(folder)])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(f"{folder / 'manifest.json'}: ")


@pytest.mark.parametrize("command", ["forecast", "evaluate"])
def test_nobody_forecasts_with_half_a_graph(folder: Path, command: str) -> None:
    half(folder / "graph.npz")
    result = CliRunner().invoke(app, [command, str(folder)])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(f"{folder / 'graph.npz'}: damaged: ")
