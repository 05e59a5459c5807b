"""Loading a run: only what belongs together goes together."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from f2stnet.errors import InputError
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries
from f2stnet.training import Run, configure, fit
from f2stnet.training.warm_start import start_weights
from small import waves
from training.test_fit import small


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return fit(waves(), small(epochs=2), tmp_path / "run")


def test_a_loaded_run_forecasts_the_same(run: Run) -> None:
    series = waves()
    again = Run.load(run.folder)
    origins = np.array([6, 50, len(series)])
    np.testing.assert_array_equal(again.predict(series, origins), run.predict(series, origins))
    assert again.config == run.config
    assert again.template.nodes == series.nodes


def test_template_keeps_clock_holidays_and_hours(tmp_path: Path) -> None:
    import datetime

    fields = {"zone": "Europe/Berlin", "holidays": (datetime.date(2024, 1, 1),), "service_hours": (0, 79_200)}
    series = waves(step=1800, steps=400, **fields)
    run = fit(series, small("last-value"), tmp_path / "run")
    for key in ("zone", "holidays", "service_hours", "step", "channels", "targets", "known", "start", "name"):
        assert getattr(run.template, key) == getattr(series, key), key


def test_history_that_is_too_short_is_refused(run: Run) -> None:
    with pytest.raises(InputError, match="this model reads 6"):
        run.predict(waves(), np.array([5]))
    with pytest.raises(InputError, match="this model reads 6"):  # not a window from the end of the series
        run.evaluate(waves(), np.array([5, 20]))


def test_origins_past_the_end_are_refused_and_so_are_none(run: Run) -> None:
    series = waves()
    for score, last in ((run.predict, 240), (run.evaluate, 240 - run.config.window.horizon)):
        score(series, np.array([6, last]))
        with pytest.raises(InputError, match=f"the last origin is {last + 1}; .* from 6 to {last}"):
            score(series, np.array([6, last + 1]))
        with pytest.raises(InputError, match="there is no origin"):
            score(series, np.array([], dtype=np.int64))


def other_graph(series: GraphSeries) -> GraphSeries:
    graph = from_edges(np.array([[0, 2], [1, 3]]), series.nodes)
    return replace(series, graph=graph)


@pytest.mark.parametrize(
    ("series", "message"),
    [
        (other_graph(waves()), "another graph"),
        (waves(nodes=5), "sensor 's4' is new"),
        (waves(nodes=3), "sensor 's3' is gone"),
        (waves(step=1800), "step 30min, run .* was trained on 1h"),
        (waves(channels=2), "channels"),
    ],
)
def test_data_of_another_kind_is_refused(run: Run, series: GraphSeries, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run.predict(series, np.array([10]))


def test_another_clock_is_refused_with_both_names(tmp_path: Path) -> None:
    run = fit(waves(zone="America/New_York"), small("last-value"), tmp_path / "run")
    for zone, shown in ((None, "its clock is one without a zone"), ("Europe/Berlin", "its clock is Europe/Berlin")):
        with pytest.raises(InputError, match=f"{shown}, run .* was trained on America/New_York") as wrong:
            run.predict(waves(zone=zone), np.array([10]))
        assert "\n" not in str(wrong.value)
    run.predict(waves(zone="America/New_York"), np.array([10]))


def test_other_service_hours_are_refused_with_both(tmp_path: Path) -> None:
    run = fit(waves(service_hours=(0, 79_200)), small("last-value"), tmp_path / "run")
    with pytest.raises(InputError, match=r"service hours are not given, run .* was trained with 00:00–22:00"):
        run.predict(waves(), np.array([10]))
    with pytest.raises(InputError, match=r"service hours are 05:30–23:00, run .* 00:00–22:00"):
        run.predict(waves(service_hours=(19_800, 82_800)), np.array([10]))


@pytest.mark.parametrize("trained", [True, False])
def test_stamps_with_and_without_offsets_are_not_mixed(trained: bool, tmp_path: Path) -> None:
    run = fit(waves(utc=trained), small("last-value"), tmp_path / "run")
    assert Run.load(run.folder).template.utc is trained
    with pytest.raises(InputError, match=r"its clock is .*, run .* was trained on .*; train with a zone") as wrong:
        run.predict(waves(utc=not trained), np.array([10]))
    assert all(kind in str(wrong.value) for kind in ("UTC (stamps with offsets", "a local one (stamps without"))
    run.predict(waves(utc=trained), np.array([10]))
    run.predict(waves(), np.array([10]))  # made in Python: nobody said which clock it is


def test_daily_data_has_no_clock_to_differ_in(tmp_path: Path) -> None:
    run = fit(waves(utc=False, step=86_400), small("last-value"), tmp_path / "run")
    run.predict(waves(utc=True, step=86_400), np.array([10]))


def test_runs_from_before_the_clock_was_kept_still_open(tmp_path: Path) -> None:
    run = fit(waves(utc=True), small("last-value"), tmp_path / "run")
    card = json.loads((run.folder / "series.json").read_text())
    del card["utc"]
    (run.folder / "series.json").write_text(json.dumps(card))
    old = Run.load(run.folder)
    assert old.template.utc is None
    old.predict(waves(utc=False), np.array([10]))


def test_sensors_in_another_order_are_put_in_the_runs(run: Run) -> None:
    series, order = waves(), [2, 0, 3, 1]
    shuffled = series.select(order)
    with pytest.raises(InputError, match="another order"):
        run.predict(shuffled, np.array([10]))
    again = run.aligned(shuffled)
    assert again.nodes == series.nodes
    assert again.digest == series.digest
    np.testing.assert_array_equal(run.predict(again, np.array([10])), run.predict(series, np.array([10])))
    with pytest.raises(InputError, match="sensor 's3' is gone"):
        run.aligned(series.select([0, 1, 2]))


def test_weights_that_differ_by_rounding_are_the_same_graph(tmp_path: Path) -> None:
    series = waves()
    run = fit(series, small("last-value"), tmp_path / "run")
    for factor, fits in ((1 + 1e-14, True), (1.001, False)):
        other = replace(series, graph=replace(series.graph, adjacency=series.graph.adjacency * factor))
        assert other.graph.digest != series.graph.digest
        assert (run.aligned(other).graph.digest == series.graph.digest) is fits


def test_weights_with_nan_are_refused_by_name(run: Run) -> None:
    weights = load_file(run.folder / "best.safetensors")
    weights["head.bias"][0] = float("nan")
    save_file(weights, run.folder / "best.safetensors")
    with pytest.raises(InputError, match=r"head\.bias.*NaN"):
        Run.load(run.folder)


def test_weights_of_another_model_are_refused(run: Run, tmp_path: Path) -> None:
    other = fit(waves(), small("stid", epochs=1), tmp_path / "other")
    (run.folder / "best.safetensors").write_bytes((other.folder / "best.safetensors").read_bytes())
    with pytest.raises(InputError, match="not the weights of this f2stnet"):
        Run.load(run.folder)


def test_a_pickle_in_place_of_weights_is_refused_unread(run: Run) -> None:
    torch.save({"head.bias": torch.zeros(3)}, run.folder / "best.safetensors")
    with pytest.raises(InputError, match="not a safetensors file"):
        Run.load(run.folder)


def test_a_swapped_graph_file_is_refused(run: Run) -> None:
    other_graph(waves()).graph.save(run.folder / "graph.npz")
    with pytest.raises(InputError, match="not the graph this run was trained on"):
        Run.load(run.folder)


def test_what_is_no_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        Run.load(tmp_path)
    with pytest.raises(InputError, match="not a run folder"):
        Run.load(tmp_path / "nowhere")


def test_unknown_keys_in_a_config_are_refused_by_name(run: Run) -> None:
    path = run.folder / "config.toml"
    path.write_text(path.read_text().replace("width =", "widht ="))
    with pytest.raises(InputError, match=r"model\.widht.*did you mean 'width'"):
        Run.load(run.folder)


def test_corrupt_json_is_one_line(run: Run) -> None:
    (run.folder / "series.json").write_text("{")
    with pytest.raises(InputError, match=r"series\.json: not valid JSON"):
        Run.load(run.folder)
    assert json.loads((run.folder / "metrics.json").read_text())


@pytest.mark.parametrize("gone", ["graph_digest", "mean", "channels", "start", None])
def test_a_card_that_lacks_something_is_one_line(run: Run, gone: str | None) -> None:
    path = run.folder / "series.json"
    card = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in card.items() if gone and key != gone}))
    with pytest.raises(InputError, match=rf"series\.json: damaged: it lacks '{gone or 'graph_digest'}'"):
        Run.load(run.folder)


def test_warm_start_matches_sensors_by_name(run: Run, tmp_path: Path) -> None:
    """Sensors s1, s2 stay (in another order), s0 and s3 are gone, 'new' gets a fresh embedding."""
    graph = from_edges(np.array([[0, 1], [1, 2]]), ["s2", "new", "s1"])
    series = waves(nodes=3, graph=graph)
    torch.manual_seed(7)
    config = small(epochs=1)
    later = fit(series, config, tmp_path / "plain")
    fresh = later.model.body.node.weight.clone()
    notes = start_weights(later.model, run, series.nodes)
    old, now = run.model.body.node.weight, later.model.body.node.weight
    assert torch.equal(now[0], old[2])
    assert torch.equal(now[2], old[1])
    assert torch.equal(now[1], fresh[1])
    assert torch.equal(later.model.head.weight, run.model.head.weight)
    assert "2 sensors matched" in notes[0]
    assert any("new sensors" in note and "new" in note for note in notes)
    assert any("gone" in note and "s0, s3" in note for note in notes)
    assert later.model.body.encode.basis.shape[0] == 3


def test_warm_start_keeps_the_frequencies_that_both_graphs_have(run: Run, tmp_path: Path) -> None:
    """Four nodes have four frequencies. Those that only the later graph has begin as nothing, not as noise."""
    matrix = run.model.body.mixing[0].gains
    torch.nn.init.normal_(matrix)
    for nodes in (3, 6):
        later = fit(waves(nodes=nodes), small(epochs=1), tmp_path / str(nodes))
        start_weights(later.model, run, later.template.nodes)
        found, both = later.model.body.mixing[0].gains, min(nodes, 4)
        assert len(found) == nodes
        assert torch.equal(found[:both], matrix[:both])
        assert not found[both:].any()


def test_warm_start_begins_where_the_other_run_ended(run: Run, tmp_path: Path) -> None:
    warm = fit(waves(), small(epochs=1, learning_rate=1e-9), tmp_path / "warm", start_from=run)
    assert warm.metrics["test"]["mae"] == pytest.approx(run.metrics["test"]["mae"], rel=1e-3)


def test_warm_start_says_what_does_not_fit(run: Run, tmp_path: Path) -> None:
    wider = configure("f2stnet", 0, {}, {"window": {"input": 8, "horizon": 4}, "model": {"width": 8}})
    heard: list[str] = []
    config = replace(wider, training=small(epochs=1).training)
    fit(waves(), config, tmp_path / "w", start_from=run, listen=lambda e, f: heard.extend(f.get("notes", [])))
    assert any("start fresh" in note and "body.window.weight" in note for note in heard)


def test_a_warm_start_from_another_model_is_refused(run: Run, tmp_path: Path) -> None:
    other = configure("stid", 0, {}, {"window": {"input": 6, "horizon": 4}, "model": {"width": 8}})
    with pytest.raises(InputError, match=r"a run of f2stnet that fits \d+ of the \d+ arrays of this model"):
        fit(waves(), other, tmp_path / "other", start_from=run)
    assert not (tmp_path / "other").exists()
