"""since and until: a file is read from one time to another, whatever kind of file it is."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from f2stnet.data import load
from f2stnet.errors import InputError


def wide(tmp_path: Path, times: Any) -> Path:
    frame = pd.DataFrame({"time": times, "a": np.arange(len(times)), "b": np.arange(len(times)) + 0.5})
    frame.to_csv(tmp_path / "x.csv", index=False)
    return tmp_path / "x.csv"


def described(tmp_path: Path, **lines: str) -> Path:
    np.save(tmp_path / "x.npy", np.arange(20, dtype=np.float32).reshape(10, 2))
    keys = {"values": '"x.npy"', "start": "2024-01-01", "step": '"1d"'} | lines
    (tmp_path / "dataset.toml").write_text("\n".join(f"{key} = {value}" for key, value in keys.items()))
    return tmp_path


@pytest.mark.parametrize("until", ["2024-01-03", date(2024, 1, 3), datetime(2024, 1, 3), "2024-01-03 00:00"])
def test_a_table_is_read_from_one_time_to_another(tmp_path: Path, until: Any) -> None:
    path = wide(tmp_path, pd.date_range("2024-01-01", periods=72, freq="1h"))
    found = load(path, since="2024-01-01 22:00", until=until)
    assert [str(stamp) for stamp in found.stamps[[0, -1]]] == ["2024-01-01T22:00:00", "2024-01-02T23:00:00"]
    np.testing.assert_array_equal(found.values[:, 0, 0], np.arange(22, 48))
    assert any(note.startswith("46 of 72 steps are left out: since 2024-01-01 22:00, until") for note in found.notes)
    assert len(load(path, since="2023-01-01", until="")) == 72  # an empty text takes back what a file or a run says
    assert load(path, since="2023-01-01").notes == load(path).notes


def test_a_time_is_one_of_the_local_clock_or_carries_its_offset(tmp_path: Path) -> None:
    path = wide(tmp_path, pd.date_range("2024-07-01", periods=48, freq="1h").strftime("%Y-%m-%d %H:%M"))
    local = load(path, zone="Europe/Berlin", until="2024-07-02")
    assert len(local) == 24
    assert load(path, zone="Europe/Berlin", until="2024-07-01T22:00Z").digest == local.digest
    with pytest.raises(InputError, match="until = '2024-07-01T22:00Z': has an offset from UTC"):
        load(path, until="2024-07-01T22:00Z")


def test_a_described_file_keeps_its_period_and_whoever_reads_it_may_set_another(tmp_path: Path) -> None:
    path = described(tmp_path, since='"2024-01-02"', until="2024-01-06")
    found = load(path)
    np.testing.assert_array_equal(found.values[:, 0, 0], [2, 4, 6, 8])
    assert str(found.start) == "2024-01-02T00:00:00"
    assert len(load(path, until="2024-01-09")) == 7
    assert load(path, since="", until="").digest == load(described(tmp_path)).digest


def test_sensors_that_fall_silent_outside_the_period_are_told_of(tmp_path: Path) -> None:
    path = wide(tmp_path, pd.date_range("2024-01-01", periods=72, freq="1h"))
    frame = pd.read_csv(path)
    frame.loc[frame.index < 40, "b"] = np.nan
    frame.to_csv(path, index=False)
    assert not any("without a single" in note for note in load(path).notes)
    assert "sensors without a single observation: b" in load(path, until="2024-01-02").notes


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"since": "last week"}, "since = 'last week': expected a time in ISO 8601"),
        ({"until": 2016}, "until = 2016: expected a time in ISO 8601"),
        ({"until": "2020-01-01"}, "until 2020-01-01: no step is left of those from 2024-01-01 00:00 to"),
        ({"since": "2024-01-03", "until": "2024-01-02"}, "no step is left"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    path = wide(tmp_path, pd.date_range("2024-01-01", periods=72, freq="1h"))
    with pytest.raises(InputError) as wrong:
        load(path, **keys)
    assert str(wrong.value).startswith(str(path))
    assert message in str(wrong.value)
    assert "\n" not in str(wrong.value)
