import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from f2stnet.errors import InputError
from f2stnet.federated.manifest import from_manifest, on_manifest, read_manifest, to_manifest
from small import chain, waves


def test_a_manifest_survives_json_and_holds_no_values() -> None:
    series = waves(nodes=5, channels=2, zone="Europe/Berlin", unit="cars")
    text = json.dumps(to_manifest(series))
    like = from_manifest(json.loads(text))
    assert len(like) == 0
    assert like.graph.digest == series.graph.digest
    assert (like.channels, like.targets, like.step, like.unit) == (series.channels, series.targets, series.step, "cars")
    assert len(text) < 2000  # 240 × 5 × 2 values would not fit


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda told: told.pop("graph"), "damaged: it lacks 'graph'"),
        (lambda told: told["graph"].pop("digest"), "damaged: it lacks 'digest'"),
        (lambda told: told["graph"].update(digest="0"), "its graph has hash"),
        (lambda told: told["graph"].update(edges=[["a", "b"]]), "damaged: .*'a'"),
        (lambda told: told["card"].pop("channels"), "damaged: it lacks 'channels'"),
        (lambda told: told["card"].update(colour=3), "damaged: .*colour"),
        (lambda told: told["card"].update(start="soon"), "damaged: .*soon"),
    ],
)
def test_a_damaged_manifest_is_one_line(damage, why: str) -> None:
    told = to_manifest(waves())
    damage(told)
    with pytest.raises(InputError, match=f"^manifest: {why}"):
        from_manifest(told)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (lambda s: replace(s, step=1800), "step is 30min, the federation's manifest says 1h"),
        (lambda s: replace(s, unit="buses"), "unit is 'buses'"),
        (lambda s: replace(s, channels=("x",), targets=("x",)), r"channels is \('x',\)"),
        (lambda s: replace(s, utc=True), "its clock is UTC .stamps with offsets, no zone given., the federation"),
        (lambda s: s.select([1, 0, 2, 3]), "another order"),
        (lambda s: waves(graph=chain(5), nodes=5), "sensor 's4' is not in"),
        (lambda s: replace(s, graph=replace(s.graph, adjacency=s.graph.adjacency * 2)), "its graph has hash"),
    ],
)
def test_a_misfit_is_refused_by_name(other, why: str) -> None:
    series = waves(utc=False)
    with pytest.raises(InputError, match=why):
        on_manifest(other(series), series)


def test_a_client_with_some_sensors_sees_the_others_as_never_measured() -> None:
    whole = waves()
    mine = whole.select([3, 1])
    spread, own = on_manifest(mine, whole)
    assert own.tolist() == [1, 3]
    assert np.array_equal(spread.values[:, 1], whole.values[:, 1])
    assert np.array_equal(spread.values[:, 3], whole.values[:, 3])
    assert np.isnan(spread.values[:, [0, 2]]).all()
    assert not spread.mask[:, [0, 2]].any()
    assert spread.graph.digest == whole.graph.digest


def test_a_manifest_is_read_and_anything_else_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(to_manifest(waves())))
    assert read_manifest(tmp_path / "manifest.json")["graph"] == json.loads(json.dumps(to_manifest(waves())["graph"]))
    for wrong in ("{}", "[", "3"):
        (tmp_path / "wrong.json").write_text(wrong)
        with pytest.raises(InputError, match=r"wrong\.json: not a manifest"):
            read_manifest(tmp_path / "wrong.json")
