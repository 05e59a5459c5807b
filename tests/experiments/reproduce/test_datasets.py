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
    found, missing, unusable = find_data(["synthetic"], given)
    assert missing == unusable == {}
    assert list(found) == ["synthetic"]
    one = found["synthetic"]
    assert one.about()["name"] == open_data(one.spec).name == "synthetic"
    assert one.digest == load("synthetic").digest


def test_a_folder_of_that_name_does_not_take_its_place(tmp_path: Path) -> None:
    city(tmp_path / "synthetic", name="synthetic")
    found = find_data(["synthetic"], None)[0]
    assert found["synthetic"].digest == load("synthetic").digest


def test_a_set_that_the_suite_names_and_nobody_has_here_is_told_how_to_come(tmp_path: Path) -> None:
    how = f"give its dataset.toml with --data, or put its folder under {tmp_path}"
    with pytest.raises(InputError, match=f"^data 'pems08-part': not on this machine; {how}$"):
        find_data(["pems08-part"], ["pems08-part"])
    city(tmp_path / "part", name="pems08-part")
    assert list(find_data(["pems08-part"], ["pems08-part"])[0]) == ["pems08-part"]


def test_a_set_of_another_name_than_the_suite_s_is_not_taken_for_it(tmp_path: Path) -> None:
    """Its records would be filed under the one name and looked for under the other."""
    real = city(tmp_path / "elsewhere" / "real", name="?")
    real.write_text(real.read_text(encoding="utf-8").replace('name = "?"\n', ""), encoding="utf-8")
    (tmp_path / "mine").symlink_to(real.parent)
    found, missing, unusable = find_data(["Synthetic", "mine"], None)
    assert found == missing == {}
    assert unusable == {
        "Synthetic": "synthetic: is called 'synthetic'; expected that name in the suite",
        "mine": f"{real}: is called 'real'; expected that name in the suite, or name = 'mine' in there",
    }
    real.write_text(f'name = "mine"\n{real.read_text(encoding="utf-8")}', encoding="utf-8")
    open_data.cache_clear()
    assert list(find_data(["mine"], None)[0]) == ["mine"]


@pytest.mark.parametrize("spoil", ["stepp = 3\n", "= ]\n"])
def test_what_is_here_and_wrong_is_said_to_be_that_and_not_to_be_got(spoil: str, tmp_path: Path) -> None:
    assert find_data(["pems04"], None)[1] == {"pems04": "f2stnet data get pems04"}
    toml = city(tmp_path / "pems04", name="pems04")
    toml.write_text(spoil + toml.read_text(encoding="utf-8"), encoding="utf-8")
    found, missing, unusable = find_data(["pems04"], None)
    assert found == missing == {}
    assert unusable["pems04"].startswith(f"{toml}: ")


def test_a_public_set_with_a_damaged_file_is_named_and_one_with_a_file_missing_is_to_be_got(tmp_path: Path) -> None:
    (tmp_path / "pems04").mkdir()
    (tmp_path / "pems04" / "pems04.npz").write_bytes(b"no archive")
    assert find_data(["pems04"], None)[1] == {"pems04": "f2stnet data get pems04"}
    (tmp_path / "pems04" / "distance.csv").write_text("from,to,cost\n0,1,2\n", encoding="utf-8")
    _, missing, unusable = find_data(["pems04"], None)
    assert missing == {}
    assert unusable["pems04"].startswith(str(tmp_path / "pems04" / "pems04.npz"))
