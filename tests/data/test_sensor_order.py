"""A long table's sensors stand in the order of their names, whatever the order of its rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from f2stnet.data import load
from f2stnet.errors import InputError
from f2stnet.training import Run, configure, fit
from f2stnet.training.folder import RunFolder
from f2stnet.training.reading import data_for
from f2stnet.training.run import in_order_of

NAMES = ("s10", "s2", "b", "2", "10")
SORTED = ("2", "10", "b", "s2", "s10")
PLACES = "sensor,lat,lon\n" + "".join(f"{name},{50 + i / 100},{8 + i * i / 90}\n" for i, name in enumerate(NAMES))


def rows(hours: int = 60) -> pd.DataFrame:
    """Sensor number i shows 100 i + the hour of the day, the first of NAMES first."""
    stamps = pd.date_range("2024-06-03", periods=hours, freq="1h")
    parts = [
        pd.DataFrame({"time": stamps, "sensor": name, "flow": 100.0 * i + stamps.hour}) for i, name in enumerate(NAMES)
    ]
    return pd.concat(parts)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows().to_csv("a.csv", index=False)
    rows().sample(frac=1, random_state=3).to_csv("b.csv", index=False)
    Path("roads.csv").write_text(PLACES)


def test_shuffled_rows_are_the_same_series() -> None:
    one, other = (load(name, graph="roads.csv") for name in ("a.csv", "b.csv"))
    assert one.nodes == other.nodes == SORTED
    assert one.digest == other.digest
    np.testing.assert_array_equal(one.values[5, :, 0], [100 * NAMES.index(name) + 5 for name in SORTED])


def test_names_that_count_alike_have_one_order() -> None:
    both = [pd.DataFrame({"time": ["2024-01-01", "2024-01-02"], "sensor": name, "v": 1}) for name in ("01", "1")]
    for order in (both, both[::-1]):
        pd.concat(order).to_csv("x.csv", index=False)
        assert load("x.csv").nodes == ("01", "1")


def test_a_matrix_without_names_is_in_the_order_in_which_rows_name_sensors() -> None:
    numbers = np.zeros((5, 5))
    numbers[0, 1] = numbers[1, 0] = 0.5  # s10 and s2
    np.save("m.npy", numbers)
    np.savetxt("m.csv", numbers, delimiter=",")
    for file in ("m.npy", "m.csv"):
        graph = load("a.csv", graph=file).graph
        assert graph.nodes == SORTED
        assert graph.adjacency[3, 4] == 0.5
        assert graph.edge_count == 1
        assert (
            f"{file} names no sensors: its rows stand for those of the table as they first come, s10, s2, b, 2, 10"
            in (graph.notes)
        )
    pd.DataFrame(numbers, index=NAMES, columns=NAMES).to_csv("named.csv")
    for data in ("a.csv", "b.csv"):
        graph = load(data, graph="named.csv").graph
        assert graph.adjacency[3, 4] == 0.5
        assert graph.notes == ()


def test_places_without_names_are_in_that_order_too() -> None:
    lat, lon = (np.array(column) for column in zip(*[line.split(",")[1:] for line in PLACES.split()[1:]], strict=True))
    np.savez("p.npz", lat=lat.astype(float), lon=lon.astype(float))
    Path("dataset.toml").write_text('values = "a.csv"\n[graph]\ncoordinates = "p.npz"\nneighbours = 2\n')
    found, named = load(Path()).graph, load("a.csv", graph="roads.csv", neighbours=2).graph
    np.testing.assert_allclose(found.adjacency.toarray(), named.adjacency.toarray())
    assert found.coordinates is not None
    np.testing.assert_allclose(found.coordinates, named.coordinates)


def test_an_empty_line_in_a_long_table_is_no_row() -> None:
    lines = Path("a.csv").read_text().splitlines()
    Path("x.csv").write_text("\n".join([*lines[:9], "", *lines[9:], ""]))
    assert load("x.csv").digest == load("a.csv").digest


def begun(epochs: int = 1) -> Run:
    """A run of a time when sensors stood as rows came."""
    series = load("a.csv", graph=str(Path("roads.csv").resolve()))
    earlier = series.select([series.nodes.index(name) for name in NAMES])
    data = {"source": str(Path("a.csv").resolve()), "graph": str(Path("roads.csv").resolve())}
    sections = {"window": {"input": 4, "horizon": 4}, "training": {"epochs": epochs}}
    return fit(earlier, configure("stid", 0, data, sections), Path("run"))


def test_a_runs_own_order_of_sensors_wins() -> None:
    run = begun()
    for spec in (None, "a.csv", "b.csv"):
        series = data_for(run, spec, {}, "")
        assert series.nodes == run.template.nodes == NAMES
        assert series.digest == RunFolder(run.folder).template()[2]
        np.testing.assert_array_equal(series.values[5, :, 0], [5, 105, 205, 305, 405])


def test_a_run_in_the_order_of_rows_can_be_resumed() -> None:
    run = begun()
    (run.folder / "metrics.json").unlink()
    series = load("a.csv", graph="roads.csv")
    assert fit(series, run.config, run.folder, resume=True).metrics["epochs"] == 1
    other = load("a.csv", graph="roads.csv", missing=[5])
    (run.folder / "metrics.json").unlink()
    with pytest.raises(InputError, match="was started on other data"):
        fit(other, run.config, run.folder, resume=True)


def test_other_sensors_keep_their_order() -> None:
    series = load("a.csv")
    assert in_order_of(series.select([0, 1]), series) is series
