"""Which file an option means, and that a run's config holds that one."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from f2stnet.cli.options import find_series, own_series

READINGS = "time,a,b\n2024-01-01 00:00,1,2\n2024-01-01 01:00,3,4\n"


def folder(path: Path, weight: float, day: str) -> Path:
    path.mkdir()
    (path / "roads.csv").write_text(f"from,to,weight\na,b,{weight}\n")
    (path / "days.txt").write_text(f"{day}\n")
    return path


@pytest.mark.parametrize("days", ["days.txt", ["days.txt", "2024-05-01"]])
@pytest.mark.parametrize("kind", ["table", "dataset.toml"])
def test_the_config_holds_the_files_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, days: Any
) -> None:
    data, here = folder(tmp_path / "data", 0.25, "2024-01-01"), folder(tmp_path / "here", 0.5, "2024-01-02")
    (data / "x.csv").write_text(READINGS)
    (data / "dataset.toml").write_text('values = "x.csv"\nholidays = ["days.txt"]\n[graph]\nedges = "roads.csv"\n')
    spec = "../data/x.csv" if kind == "table" else "../data"
    keys: dict[str, Any] = {"holidays": days} | ({"graph": "roads.csv"} if kind == "table" else {})
    labour = () if days == "days.txt" else (date(2024, 5, 1),)

    monkeypatch.chdir(here)
    series, config = find_series(spec, keys)
    assert series.holidays == (date(2024, 1, 2), *labour)
    assert series.graph.adjacency.max() == (0.5 if kind == "table" else 0.25)  # a dataset.toml's own is beside it
    monkeypatch.chdir(tmp_path)
    again = own_series(tmp_path, config, "")
    assert (again.holidays, again.digest) == (series.holidays, series.digest)


def test_a_file_that_is_only_beside_the_data_is_found_again_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, other = folder(tmp_path / "data", 0.25, "2024-01-01"), folder(tmp_path / "other", 0.5, "2024-01-02")
    (data / "x.csv").write_text(READINGS)
    monkeypatch.chdir(tmp_path)
    series, config = find_series("data/x.csv", {"graph": "roads.csv", "holidays": "days.txt"})
    assert series.graph.adjacency.max() == 0.25
    monkeypatch.chdir(other)
    again = own_series(tmp_path, config, "")
    assert (again.holidays, again.digest) == (series.holidays, series.digest)
