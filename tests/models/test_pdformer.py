from dataclasses import replace

import numpy as np
import torch

from f2stnet.data.scaler import fit_scaler
from f2stnet.data.split import Parts, WindowConfig, split
from f2stnet.data.windows import Task, Windows
from f2stnet.graph import Graph, from_edges
from f2stnet.models import count_parameters, make_model
from f2stnet.models.pdformer import (
    Layer,
    PDFormer,
    PDFormerConfig,
    laplacian_positions,
    last_steps,
    snippets,
    usual_days,
    within_hops,
)
from f2stnet.series import GraphSeries
from f2stnet.training import configure
from small import chain, waves

SMALL = PDFormerConfig(
    width=16, layers=1, geographic_heads=2, semantic_heads=1, temporal_heads=1, feed_forward=16, skip=16, hops=2,
    similar=2, shapes=3,
)  # fmt: skip


def lone(nodes: int) -> Graph:
    return from_edges(np.zeros((0, 2), dtype=np.int64), [f"s{i}" for i in range(nodes)])


def ready(config: PDFormerConfig, series: GraphSeries, prepare: bool = True) -> tuple[PDFormer, Windows, Parts]:
    torch.manual_seed(0)
    parts = split(series, WindowConfig(6, 4))
    windows = Windows(series, fit_scaler(series, parts.train, 6, 4), 6, 4)
    model = make_model("pdformer", config, Task.of(series, 6, 4)).eval()
    assert isinstance(model, PDFormer)
    if prepare:
        model.prepare(windows, parts.train)
    return model, windows, parts


def forecast(model: PDFormer, windows: Windows, parts: Parts) -> torch.Tensor:
    with torch.no_grad():
        return model(windows.inputs(torch.as_tensor(parts.train[:3])))


def reach(model: PDFormer, windows: Windows, parts: Parts) -> list[list[int]]:
    """[from, to]: 1 where the forecast of a node changes with another's window."""
    inputs = windows.inputs(torch.as_tensor(parts.train[:2]))
    nodes = inputs.values.shape[2]
    found = []
    with torch.no_grad():
        before = model(inputs)
        for node in range(nodes):
            values = inputs.values.clone()
            values[:, :, node] += 1
            moved = (model(replace(inputs, values=values)) - before).abs().amax(dim=(0, 1, 3))
            found.append((moved > 1e-6).int().tolist())
    return found


def test_near_is_fewer_hops_than_asked_for() -> None:
    expected = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) < 3
    np.testing.assert_array_equal(within_hops(chain(5), 3), expected)
    assert within_hops(lone(3), 7).tolist() == np.eye(3, dtype=bool).tolist()


def test_geographic_heads_see_no_further_than_their_hops() -> None:
    config = replace(SMALL, semantic_heads=0, temporal_heads=2)
    path = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) < 2
    assert reach(*ready(config, waves(nodes=5))) == path.astype(int).tolist()


def test_semantic_heads_see_the_nodes_whose_day_is_alike_wherever_they_are() -> None:
    series = waves(nodes=4, graph=lone(4))
    twins = series.values.copy()
    twins[:, 2], twins[:, 3] = twins[:, 0] + 0.01, twins[:, 1] + 0.01
    model, windows, parts = ready(SMALL, replace(series, values=twins))
    pairs = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    assert model.semantic.int().tolist() == pairs
    assert reach(model, windows, parts) == pairs
    alone = ready(replace(SMALL, semantic_heads=0, temporal_heads=2), replace(series, values=twins))
    assert reach(*alone) == np.eye(4, dtype=int).tolist()


def test_temporal_heads_are_the_only_way_from_step_to_step_within_a_layer() -> None:
    series = waves(nodes=2)
    for heads, expected in ((1, True), (0, False)):
        config = replace(SMALL, semantic_heads=2 - heads, temporal_heads=heads, delay=False)
        model, windows, parts = ready(config, series)
        seen: list[torch.Tensor] = []
        model.layers[0].register_forward_hook(lambda layer, given, result, seen=seen: seen.append(result))
        inputs = windows.inputs(torch.as_tensor(parts.train[:1]))
        values = inputs.values.clone()
        values[:, 0] += 1
        with torch.no_grad():
            model(inputs)
            model(replace(inputs, values=values))
        assert (not torch.allclose(seen[0][:, 1:], seen[1][:, 1:])) is expected


def test_the_last_steps_end_at_each_step_and_start_with_zeros() -> None:
    x = torch.tensor([1.0, 2, 3, 4])[None, :, None, None]
    assert last_steps(x, 3)[0, :, 0, 0].tolist() == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_without_delay_awareness_the_forecast_is_another() -> None:
    series = waves(nodes=5)
    model, windows, parts = ready(SMALL, series)
    with torch.no_grad():
        model.layers[0].attention.delay[0].value.weight *= 100  # a fresh model hardly listens to its keys
    aware = forecast(model, windows, parts)
    shapes = model.shapes.clone()
    model.shapes.zero_()
    assert (forecast(model, windows, parts) - aware).abs().max() > 1e-4
    model.shapes.copy_(shapes)
    without, _, _ = ready(replace(SMALL, delay=False), series)
    found = without.load_state_dict(model.state_dict(), strict=False)  # the same weights but for the shapes' own
    assert not found.missing_keys
    assert (forecast(without, windows, parts) - aware).abs().max() > 1e-4


def test_without_the_similar_nodes_the_forecast_is_another() -> None:
    series = waves(nodes=5)
    model, windows, parts = ready(SMALL, series)
    with_them = forecast(model, windows, parts)
    model.semantic.copy_(torch.eye(5, dtype=torch.bool))
    assert (forecast(model, windows, parts) - with_them).abs().max() > 1e-4


def test_what_is_looked_up_comes_from_the_training_part_alone() -> None:
    series = waves(nodes=5)
    model, _, parts = ready(SMALL, series)
    later = series.values.copy()
    later[int(parts.train[-1]) + 4 :] = np.random.default_rng(0).normal(size=later[int(parts.train[-1]) + 4 :].shape)
    other, _, _ = ready(SMALL, replace(series, values=later))
    assert torch.equal(model.semantic, other.semantic)
    torch.testing.assert_close(model.shapes, other.shapes, rtol=0, atol=0)
    assert model.shapes.abs().sum() > 0
    assert int(model.semantic.sum()) == 10


def test_a_node_that_is_not_held_is_nobodys_neighbour() -> None:
    model, windows, parts = ready(SMALL, waves(nodes=5), prepare=False)
    windows.hold(np.array([0, 1, 2]))
    model.prepare(windows, parts.train)
    assert not model.semantic[:3, 3:].any()
    assert torch.equal(model.semantic[3:], torch.eye(5, dtype=torch.bool)[3:])


def test_a_usual_day_is_the_mean_of_days_and_leaves_out_hours_that_nobody_saw() -> None:
    values = np.tile(np.arange(24.0)[:, None, None], (10, 2, 1)) + np.repeat(np.arange(10.0), 24)[:, None, None]
    series = waves(nodes=2)
    mask = series.mask.copy()
    mask[:, :, :] = True
    mask[np.arange(240) % 24 == 5] = False
    mask[np.arange(240) % 24 == 7, 1] = False
    windows = Windows(
        replace(series, values=values.astype(np.float32), mask=mask), fit_scaler(series, np.array([6]), 6, 4), 6, 4
    )
    days = usual_days(windows, np.arange(48))
    real = days * windows.target_deviation.numpy() + windows.target_mean.numpy()
    seen = np.delete(np.arange(24), 5) + 0.5
    np.testing.assert_allclose(real[:, 0, 0], seen, rtol=1e-5)
    np.testing.assert_allclose(real[6, 1, 0], np.delete(seen, 6).mean(), rtol=1e-5)


def test_snippets_cross_neither_gaps_in_time_nor_missing_values() -> None:
    series = waves(nodes=2)
    mask = series.mask.copy()
    mask[1, 0] = False
    windows = Windows(replace(series, mask=mask), fit_scaler(series, np.array([6]), 6, 4), 6, 4)
    found = snippets(windows, np.array([0, 1, 2, 3, 7, 8, 9]), 0, 3)
    real = found * windows.deviation.numpy() + windows.mean.numpy()
    runs = [(0, 1), (1, 1), (7, 0), (7, 1)]  # first step and node
    expected = [series.values[first : first + 3, node, 0] for first, node in runs]
    np.testing.assert_allclose(real, expected, rtol=1e-4)
    assert snippets(windows, np.array([0, 1]), 0, 3).shape == (0, 3)


def test_positions_of_a_path_of_three_are_known() -> None:
    """I − D^{-1/2} A D^{-1/2} has the eigenvalues 0, 1 and 2."""
    root = np.sqrt(0.5)
    found = laplacian_positions(chain(3), 4)
    np.testing.assert_allclose(np.abs(found[:, 0]), [root, 0, root], atol=1e-9)
    np.testing.assert_allclose(found[:, 1] * np.sign(found[0, 1]), [0.5, -root, 0.5], atol=1e-9)
    assert (found[:, 2:] == 0).all()


def test_no_position_is_constant_on_a_component() -> None:
    graph = from_edges(np.array([[0, 1], [1, 2], [3, 4]]), [f"s{i}" for i in range(6)])
    found = laplacian_positions(graph, 8)
    strength = np.sqrt([1, 2, 1, 1, 1, 0])
    for component in (slice(0, 3), slice(3, 5)):
        np.testing.assert_allclose(strength[component] @ found[component], 0, atol=1e-9)
    np.testing.assert_allclose(found.T @ found, np.diag([1, 1, 1, 0, 0, 0, 0, 0]), atol=1e-9)
    assert (laplacian_positions(lone(3), 2) == 0).all()


def test_signs_of_positions_are_drawn_in_training_only() -> None:
    model, windows, parts = ready(replace(SMALL, drop_path=0.0), waves(nodes=5))
    torch.testing.assert_close(forecast(model, windows, parts), forecast(model, windows, parts), rtol=0, atol=0)
    model.train()
    drawn = {round(float(forecast(model, windows, parts).sum()), 5) for _ in range(6)}
    assert len(drawn) > 1


def test_a_dropped_path_is_dropped_for_whole_windows() -> None:
    torch.manual_seed(0)
    layer = Layer(SMALL, 0, 0.5).train()
    kept = layer._dropped(torch.ones(64, 2, 3, 16)).flatten(1)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert (kept.amin(dim=1) == kept.amax(dim=1)).all()


def test_with_the_released_clock_and_idle_biases_the_count_is_the_published_one() -> None:
    series = waves(steps=30, nodes=307, graph=chain(307), step=300)
    model = make_model("pdformer", PDFormerConfig(), Task.of(series, 12, 12))
    clock, weekdays, biases = (1440 - 288) * 64, (7 - 8) * 64, 6 * 2 * 32
    assert count_parameters(model) + clock + weekdays + biases == 531_165


def test_the_published_recipe_has_its_curriculum() -> None:
    training = configure("pdformer", recipe="published").training
    assert (training.curriculum, training.batch, training.optimiser, training.warmup) == (2.0, 16, "adamw", 5)
    assert training.loss == "huber"
    assert training.loss_units == "real"
