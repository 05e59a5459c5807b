"""A stream's forecast is the batch forecast over the last T steps, whenever it is asked for."""

import statistics
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from f2stnet.errors import InputError
from f2stnet.series import GraphSeries
from f2stnet.training import Run, fit
from f2stnet.training.stream import ReadsSteps, Stream
from small import waves
from training.test_fit import small

STEPS = 300


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("stream")
    series = waves(missing_share=0.1)
    configs = {name: small(name, epochs=1) for name in ("f2stnet", "paper", "stid", "last-value")}
    seasonal = configs["f2stnet"]
    configs["without days"] = replace(seasonal, window=replace(seasonal.window, days=0))
    for name, bridges in (("bridging", True), ("not bridging", False)):
        configs[name] = replace(seasonal, settings=replace(seasonal.settings, bridge=bridges))
    return {name: fit(series, config, folder / name) for name, config in configs.items()}


def later(steps: int = STEPS, **fields: object) -> GraphSeries:
    """Other data of the same sensors, with gaps."""
    return waves(steps=steps, seed=5, missing_share=0.2, **fields)


def fed(run: Run, series: GraphSeries, steps: int) -> Stream:
    stream = Stream(run, series.start)
    for t in range(steps):
        stream.push(series.values[t], series.mask[t])
    return stream


def batch(run: Run, series: GraphSeries, origin: int) -> np.ndarray:
    return run.predict(series.cut(0, origin), np.array([origin]))[0]


@pytest.mark.parametrize("name", ["f2stnet", "without days", "bridging", "not bridging", "paper", "stid", "last-value"])
def test_every_forecast_of_300_pushes_equals_the_batch_forecast(runs: dict[str, Run], name: str) -> None:
    run, series = runs[name], later()
    wanted = run.predict(series, np.arange(6, STEPS + 1))
    stream = Stream(run, series.start)
    for t in range(STEPS):
        stream.push(series.values[t], series.mask[t])
        if stream.ready:
            np.testing.assert_allclose(stream.forecast(), wanted[t - 5], rtol=2e-5, atol=2e-5)
    assert stream.pushed == STEPS


@pytest.mark.parametrize(
    ("name", "gaps", "read"), [("not bridging", True, [1]), ("bridging", False, [1]), ("bridging", True, [1, 6])]
)
def test_models_that_read_steps_are_asked_for_one_step_a_push(
    runs: dict[str, Run], name: str, gaps: bool, read: list[int]
) -> None:
    """And for the window once more where there is something in it to bridge."""
    model = runs[name].model
    assert isinstance(model, ReadsSteps)
    assert not isinstance(runs["stid"].model, ReadsSteps)
    series = waves(steps=STEPS, seed=5, missing_share=0.2 if gaps else 0.0)
    stream, seen = fed(runs[name], series, 20), []
    hook = model.body.encode.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[1]))
    stream.push(series.values[20], series.mask[20])
    stream.forecast()
    hook.remove()
    assert seen == read


def test_numbers_that_mean_missing_need_no_mask(runs: dict[str, Run]) -> None:
    run, series = runs["stid"], later()
    stream = Stream(run, series.start)
    for values in series.values[:10]:
        stream.push(values)  # NaN where nothing was observed
    np.testing.assert_array_equal(stream.forecast(), fed(run, series, 10).forecast())


@pytest.mark.parametrize("gap", [1, 4, 50])
def test_a_gap_by_stamp_equals_missing_steps(runs: dict[str, Run], gap: int) -> None:
    run, series = runs["f2stnet"], later()
    mask = series.mask.copy()
    mask[20 : 20 + gap] = False
    holed = replace(series, mask=mask)
    wanted = batch(run, holed, 22 + gap)
    by_stamp, by_hand = fed(run, series, 20), fed(run, series, 20)
    by_hand.push_missing(gap)
    for t in (20 + gap, 21 + gap):
        by_stamp.push(series.values[t], series.mask[t], at=series.stamps[t])
        by_hand.push(series.values[t], series.mask[t])
    assert by_stamp.next == by_hand.next == series.stamps[22 + gap]
    np.testing.assert_allclose(by_stamp.forecast(), wanted, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(by_hand.forecast(), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["f2stnet", "without days", "paper", "stid"])
def test_a_restarted_stream_goes_on_as_if_nothing_had_happened(runs: dict[str, Run], name: str, tmp_path: Path) -> None:
    run, series = runs[name], later()
    stream = fed(run, series, 47)
    stream.save(tmp_path / "state")
    again = Stream.load(Run.load(run.folder), tmp_path / "state")
    assert (again.next, again.pushed) == (stream.next, stream.pushed)
    for t in range(47, 70):
        for each in (stream, again):
            each.push(series.values[t], series.mask[t])
        np.testing.assert_array_equal(again.forecast(), stream.forecast())


def test_a_stream_that_was_not_ready_is_not_ready_after_a_restart(runs: dict[str, Run]) -> None:
    run = runs["f2stnet"]
    again = Stream.from_bytes(run, fed(run, later(), 3).to_bytes())
    with pytest.raises(InputError, match="3 steps were pushed, this model reads 6"):
        again.forecast()


def test_neither_memory_nor_time_of_a_push_grows(runs: dict[str, Run]) -> None:
    run, series = runs["f2stnet"], later(60)
    stream, seconds, sizes = Stream(run, series.start), [], []
    for t in range(1200):
        began = time.perf_counter()
        stream.push(series.values[t % 60], series.mask[t % 60])
        seconds.append(time.perf_counter() - began)
        if t in (50, 1199):
            sizes.append((len(stream.to_bytes()), sum(ring.rows.numel() for ring in rings(stream))))
    assert sizes[0][1] == sizes[1][1]
    assert abs(sizes[0][0] - sizes[1][0]) < 16  # digits of the counter
    assert statistics.median(seconds[-200:]) < 2 * statistics.median(seconds[100:300])


def rings(stream: Stream) -> list:
    return [ring for ring in (stream._values, stream._observed, stream._read) if ring is not None]


def test_known_channels_are_read_ahead(tmp_path: Path) -> None:
    series = waves(channels=2, known=1)
    run = fit(series, small(epochs=1), tmp_path / "run")
    stream = Stream(run, series.start)
    for t in range(30):
        stream.push(series.values[t], series.mask[t])
    ahead = series.values[30:34][..., [1]]
    np.testing.assert_allclose(stream.forecast(ahead), run.predict(series, np.array([30]))[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(stream.forecast(), batch(run, series, 30), rtol=2e-5, atol=2e-5)
    with pytest.raises(InputError, match=r"known values of shape \(4, 4, 2\), expected \(4, 4, 1\)"):
        stream.forecast(series.values[30:34])


def test_the_clock_is_the_series_own(runs: dict[str, Run]) -> None:
    """Summer time begins or ends while the stream runs: the calendar is the local one, as in a batch, and so are the
    hours of earlier days."""
    series = later(220, zone="Europe/Berlin")
    run = runs["f2stnet"]
    berlin = replace(run, template=replace(run.template, zone="Europe/Berlin"))
    for start, origin in product(("2024-03-30T12:00:00", "2024-10-26T12:00:00"), (8, 12, 13, 14, 30, 180, 190, 220)):
        series = replace(series, start=np.datetime64(start))
        np.testing.assert_allclose(
            fed(berlin, series, origin).forecast(), batch(berlin, series, origin), rtol=2e-5, atol=2e-5
        )


def test_what_cannot_be_pushed_is_said(runs: dict[str, Run]) -> None:
    run, series = runs["stid"], later()
    with pytest.raises(InputError, match=r"\(3, 1\) values, expected \[sensors, channels\] = \(4, 1\)"):
        fed(run, series, 1).push(series.values[0, :3])
    with pytest.raises(InputError, match="no clock yet"):
        Stream(run).push(series.values[0])
    with pytest.raises(InputError, match="no clock yet"):
        Stream(run).push_missing()
    for wrong in (series.stamps[1], series.stamps[3] + np.timedelta64(60, "s")):
        with pytest.raises(InputError, match="or later by whole steps of 3600 s"):
            fed(run, series, 2).push(series.values[0], at=wrong)
    with pytest.raises(InputError, match="stamp 'noon'"):
        Stream(run, "noon")


def test_a_state_of_another_run_is_refused(runs: dict[str, Run], tmp_path: Path) -> None:
    other = fit(waves(nodes=3), small("stid", epochs=1), tmp_path / "other")
    stored = fed(runs["stid"], later(), 8).to_bytes()
    with pytest.raises(InputError, match="the stored stream has graph"):
        Stream.from_bytes(other, stored)
    (tmp_path / "state").write_bytes(b"nonsense, and more of it")
    with pytest.raises(InputError, match="state: not the state of a stream"):
        Stream.load(runs["stid"], tmp_path / "state")
    with pytest.raises(InputError, match="no such file"):
        Stream.load(runs["stid"], tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("told", "other"),
    [
        ("step 1h, this run 5min", {"step": 300}),
        ("zone none, this run Europe/Berlin", {"zone": "Europe/Berlin"}),
        ("zone none, this run UTC", {"utc": True}),
        ("unit none, this run veh/h", {"unit": "veh/h"}),
        ("horizon 4, this run 3", {"horizon": 3}),
    ],
)
def test_a_state_whose_numbers_mean_something_else_is_refused(
    runs: dict[str, Run], told: str, other: dict[str, object]
) -> None:
    run = runs["stid"]
    stored = fed(run, later(), 8).to_bytes()
    if "horizon" in other:
        run = replace(run, config=replace(run.config, window=replace(run.config.window, **other)))
    else:
        run = replace(run, template=replace(run.template, **other))
    with pytest.raises(InputError, match=f"^the stored stream has {told}$"):
        Stream.from_bytes(run, stored)
    Stream.from_bytes(runs["stid"], stored)


@pytest.mark.cuda
def test_a_stream_on_a_gpu_equals_the_batch_forecast(runs: dict[str, Run]) -> None:
    series = later(40)
    for name in ("f2stnet", "paper", "stid"):
        run = Run.load(runs[name].folder, torch.device("cuda"))
        np.testing.assert_allclose(fed(run, series, 40).forecast(), batch(run, series, 40), rtol=1e-3, atol=1e-3)
