"""Numbers that look like a code for 'not observed' are pointed out, and nothing else is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from f2stnet.data import load, read_recent
from f2stnet.data.codes import code_note, find_codes

FLOW = np.float32(100 + 50 * np.sin(np.arange(400) / 7))


def with_code(code: float, times: int = 20, flow: np.ndarray = FLOW) -> np.ndarray:
    return np.concatenate([flow, np.full(times, code)]).astype(np.float32)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        *((-999, "-999"), (-9999, "-9999"), (9999, "9999"), (-999.9, "-999.9"), (-99, "-99"), (-9, "-9")),
        *((-1, "-1"), (32767, "32767")),
    ],
)
def test_a_code_is_found_with_its_count(code: float, text: str) -> None:
    assert find_codes(with_code(code)) == [(text, 20)]


def test_minus_one_among_counts_is_a_code_and_their_zeros_are_none() -> None:
    counts = np.where(FLOW < 70, 0, FLOW.round())
    assert find_codes(with_code(-1, 20, counts)) == [("-1", 20)]


def test_several_codes_are_found() -> None:
    both = with_code(9999, 5, with_code(-9999, 7))
    assert sorted(find_codes(both)) == [("-9999", 7), ("9999", 5)]
    nested = with_code(-999, 5, with_code(-9999, 7))
    assert find_codes(nested) == [("-9999", 7), ("-999", 5)]


@pytest.mark.parametrize(
    "usual",
    [
        FLOW,
        np.where(FLOW > 140, 140, FLOW),  # a sensor that ends at 140
        np.where(FLOW < 70, 0, FLOW),  # one that shows nothing at night
        with_code(900, 1),  # one outlier, or two
        with_code(-999, 2),
        np.arange(400) % 2,
        np.arange(400) % 21 - 1 - (np.arange(400) % 42 == 0),  # degrees from -2 on: -1 is one of them
        np.full(400, 7.0),
        np.tile(np.arange(100), 4),  # 99 is the highest of many
        np.random.default_rng(0).lognormal(3, 1.5, 5_000).round(),  # a long tail
        np.zeros(0),
    ],
)
def test_usual_readings_are_no_codes(usual: np.ndarray) -> None:
    assert find_codes(usual.astype(np.float32)) == []


def test_the_note_names_value_count_channel_and_key() -> None:
    values = np.stack([with_code(-999), with_code(150, 20)], axis=1)[:, None]
    (note,) = code_note(values, np.isfinite(values), ("rain", "flow"), (0.0,))
    assert note == (
        "unlike all other readings: -999 (20 times in 'rain'); if it means 'not observed', set data.missing=[0, -999]"
    )


def test_tables_arrays_and_recent_readings_are_looked_at_and_kept_as_they_are(tmp_path: Path) -> None:
    stamps = pd.date_range("2024-06-03", periods=420, freq="1h")
    pd.DataFrame({"time": stamps, "a": with_code(-999)}).to_csv(tmp_path / "x.csv", index=False)
    np.save(tmp_path / "x.npy", with_code(-999)[:, None])
    (tmp_path / "dataset.toml").write_text('values = "x.npy"\nstart = 2024-06-03T00:00:00\nstep = "1h"\n')
    table, array = load(tmp_path / "x.csv"), load(tmp_path)
    recent = read_recent(tmp_path / "x.csv", replace(table, notes=()))
    for series in (table, array, recent):
        assert any("-999 (20 times in 'value')" in note for note in series.notes)
        assert series.mask.all()
    told = load(tmp_path / "x.csv", missing=[-999])
    assert not any("-999" in note for note in told.notes)
    assert int((~told.mask).sum()) == 20


def test_something_that_is_switched_off_shows_an_honest_zero():
    random = np.random.default_rng(0)
    pump = np.where(random.random(2000) < 0.5, 0.0, random.normal(5.2, 0.05, 2000)).astype(np.float32)
    assert find_codes(pump) == []
