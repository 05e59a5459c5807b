import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from f2stnet.config import as_dict, build, to_toml
from f2stnet.data import formats, load, resolve, sources
from f2stnet.data.pems import PemsConfig
from f2stnet.data.table import TableConfig
from f2stnet.errors import InputError

NAMES = {
    "synthetic",
    "pems03",
    "pems04",
    "pems07",
    "pems08",
    "metr-la",
    "pems-bay",
    "hzmetro",
    "shmetro",
    "knowair",
}


def test_every_set_is_registered_with_a_line_about_it() -> None:
    assert set(sources) == NAMES
    for entry in (*sources.values(), *formats.values()):
        assert entry.summary
        assert build(entry.config, as_dict(entry.config), "data") == entry.config
        to_toml({"data": as_dict(entry.config)})


def test_a_name_is_the_set_of_that_name() -> None:
    found = resolve("pems08", {"channels": ["flow", "speed"]})
    assert (found.entry.name, found.path) == ("pems08", None)
    assert found.config == PemsConfig(channels=("flow", "speed"))
    assert resolve("METR-LA", {}).entry.name == "metr-la"


def test_the_synthetic_city_needs_no_file() -> None:
    found = load("synthetic", days=3)
    assert len(found) > 0
    assert found.graph.edge_count > 0


def test_a_path_is_a_folder_a_toml_or_a_table(tmp_path: Path) -> None:
    (tmp_path / "dataset.toml").write_text("")
    (tmp_path / "other.toml").write_text("")
    for name in ("x.csv", "x.csv.gz", "x.parquet", "X.CSV"):
        (tmp_path / name).write_text("")
        assert resolve(tmp_path / name, {"zone": "UTC"}).config == TableConfig(zone="UTC")
    for path in (tmp_path, tmp_path / "dataset.toml", tmp_path / "other.toml"):
        assert resolve(str(path), {}).entry.name == "dataset.toml"


def test_what_is_none_of_these_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="data 'pems4': neither a known data set nor a file; did you mean 'pems04'"):
        resolve("pems4", {})
    with pytest.raises(InputError, match="nor a file; known: hzmetro, knowair"):
        resolve("no/such/file.csv", {})
    with pytest.raises(InputError, match=r"a folder without dataset\.toml"):
        resolve(tmp_path, {})
    (tmp_path / "x.xlsx").write_text("")
    with pytest.raises(InputError, match=r"x\.xlsx: expected dataset\.toml, \.csv, \.tsv or \.parquet$"):
        resolve(tmp_path / "x.xlsx", {})
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"x\.npy: .*; describe it in a dataset\.toml"):
        resolve(tmp_path / "x.npy", {})


@pytest.mark.parametrize("name", sorted(NAMES))
def test_unknown_keys_are_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown key 'data\.no_such_key'"):
        resolve(name, {"no_such_key": 1})


def test_arrays_load_where_only_the_numeric_packages_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", flow=np.ones((5, 2)))
    (tmp_path / "edges.csv").write_text("from,to\n0,1\n")
    (tmp_path / "dataset.toml").write_text(
        'values = "x.npz"\nstart = 2024-01-01\nstep = "1h"\n[graph]\nedges = "edges.csv"\n'
    )
    absent = ["pooch", "plotly", "pyarrow", "tables", "requests", "rich", "typer", "matplotlib"]
    script = (
        f"import sys\nfor name in {absent}: sys.modules[name] = None\n"
        "import f2stnet.data\nassert 'pandas' not in sys.modules and 'h5py' not in sys.modules\n"
        f"print(f2stnet.data.load({str(tmp_path)!r}).graph.edge_count)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "1\n"), found.stderr
