from pathlib import Path

import numpy as np
import pytest

from f2stnet.data import load
from f2stnet.data.knowair import VARIABLES
from f2stnet.errors import InputError

CITIES = "0 Beijing 116.4 40.0\n1 Tianjin 117.3 39.1\n2 Tangshan 118.2 39.6\n"
STEPS = 8 * (365 + 366 + 365 + 365)


def folder(path: Path, data: np.ndarray | None = None, cities: str = CITIES) -> str:
    if data is None:
        data = np.zeros((STEPS, 3, 18), dtype=np.float32)
        data += np.arange(18, dtype=np.float32)  # each variable holds its place
        data[:, :, 17] += np.arange(STEPS, dtype=np.float32)[:, None]
    np.save(path / "KnowAir.npy", data)
    (path / "city.txt").write_text(cities)
    return str(path)


def test_the_papers_period_of_pm25(tmp_path: Path) -> None:
    found = load("knowair", path=folder(tmp_path))
    assert found.values.shape == (1_224, 3, 1)
    assert (found.start, found.step) == (np.datetime64("2016-09-01"), 10_800)
    begin = 8 * int((np.datetime64("2016-09-01") - np.datetime64("2015-01-01")).astype(int))
    np.testing.assert_array_equal(found.values[:, 0, 0], 17 + begin + np.arange(1_224))
    assert (found.targets, found.unit) == (("pm2.5",), "ug/m3")
    assert found.nodes == ("Beijing", "Tianjin", "Tangshan")
    assert found.graph.coordinates is not None
    np.testing.assert_allclose(found.graph.coordinates[0], [40.0, 116.4])


def test_temperature_and_further_variables(tmp_path: Path) -> None:
    path = folder(tmp_path)
    found = load("knowair", path=path, target="temperature", inputs=["k_index"], known=["total_precipitation"])
    assert (found.targets, found.known) == (("2m_temperature",), ("total_precipitation",))
    assert found.channels == ("2m_temperature", "k_index", "total_precipitation")
    assert found.values[0, 0].tolist() == [3, 5, 12]
    assert len(VARIABLES) == 18
    with pytest.raises(InputError, match="unknown variable 'k_idx'; did you mean 'k_index'"):
        load("knowair", path=path, inputs=["k_idx"])


def test_the_period_may_be_chosen(tmp_path: Path) -> None:
    path = folder(tmp_path)
    assert len(load("knowair", path=path, period="all")) == STEPS
    day = load("knowair", path=path, period=["2018-12-31", "2018-12-31"])
    assert (len(day), day.start) == (8, np.datetime64("2018-12-31"))
    for period in (["2014-12-31", "2015-02-01"], ["2018-12-31", "2019-01-01"]):
        with pytest.raises(InputError, match="covers 2015-01-01 to 2018-12-31, period asks for"):
            load("knowair", path=path, period=period)
    for period in ("some", ["2016-09-01"], ["2016-09-01", "soon"]):
        with pytest.raises(InputError, match="expected two days, or 'all'"):
            load("knowair", path=path, period=period)
    with pytest.raises(InputError, match="ends before it begins"):
        load("knowair", path=path, period=["2016-09-02", "2016-09-01"])


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"KnowAir\.npy: has the shape \[8, 3, 17\]"):
        load("knowair", path=folder(tmp_path, np.zeros((8, 3, 17))))
    with pytest.raises(InputError, match=r"city\.txt: lists 2 cities, KnowAir\.npy has 3"):
        load("knowair", path=folder(tmp_path, cities=CITIES.partition("2 T")[0]))
    with pytest.raises(InputError, match=r"city\.txt, row 2: '1 Tianjin', expected 'index name longitude"):
        load("knowair", path=folder(tmp_path, cities="0 Beijing 116.4 40.0\n1 Tianjin\n"))
    with pytest.raises(InputError, match=r"city\.txt, row 2: city 2, expected 1"):
        load("knowair", path=folder(tmp_path, cities="0 Beijing 116.4 40.0\n2 Tianjin 117.3 39.1\n"))
    np.save(tmp_path / "KnowAir.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(InputError, match=r"KnowAir\.npy: holds pickled"):
        load("knowair", path=str(tmp_path))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"KnowAir\.npy: no such file; put it there \(source: the README of GitHub"):
        load("knowair", path=str(tmp_path))


@pytest.mark.real
def test_the_real_cities(real_data: Path, tmp_path: Path) -> None:
    cities = (real_data / "knowair_geo_only" / "city.txt").read_text()
    path = folder(tmp_path, np.zeros((16, 184, 18), dtype=np.float32), cities)
    found = load("knowair", path=path, period="all")
    assert len(found.nodes) == 184
    assert found.graph.edge_count >= 184 * 8 / 2
