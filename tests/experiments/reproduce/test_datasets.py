"""Data sets by name: the made-up ones are always there."""

from pathlib import Path

import pytest
from tiny import city

from f2stnet.data import load
from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.datasets import find_data, open_data


@pytest.fixture(autouse=True)
def _nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("F2STNET_DATA", str(tmp_path))


@pytest.mark.parametrize("given", [None, ["synthetic"], ["Synthetic"]])
def test_the_synthetic_city_is_the_one_that_federate_uses(given: list[str] | None) -> None:
    found, missing = find_data(["synthetic"], given)
    assert missing == {}
    assert list(found) == ["synthetic"]
    one = found["synthetic"]
    assert one.about()["name"] == open_data(one.spec).name == "synthetic"
    assert one.digest == load("synthetic").digest


def test_a_folder_of_that_name_does_not_take_its_place(tmp_path: Path) -> None:
    city(tmp_path / "synthetic", name="synthetic")
    found, _ = find_data(["synthetic"], None)
    assert found["synthetic"].digest == load("synthetic").digest


def test_a_set_that_the_suite_names_and_nobody_has_here_is_told_how_to_come(tmp_path: Path) -> None:
    how = f"give its dataset.toml with --data, or put its folder under {tmp_path}"
    with pytest.raises(InputError, match=f"^data 'pems08-part': not on this machine; {how}$"):
        find_data(["pems08-part"], ["pems08-part"])
    city(tmp_path / "part", name="pems08-part")
    assert list(find_data(["pems08-part"], ["pems08-part"])[0]) == ["pems08-part"]
