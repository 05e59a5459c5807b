"""Windows are index views, and models see nothing of the future."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.data.scaler import Scaler
from f2stnet.data.windows import Inputs, Windows, season
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries, observe
from small import waves

T, H, NODES, STEPS = 4, 3, 5, 40
SCALER = Scaler(mean=np.array([50.0, 2.0, 10.0]), deviation=np.array([10.0, 0.5, 4.0]))


@pytest.fixture(scope="module")
def series() -> GraphSeries:
    """Two targets and one channel that is known ahead. Some values are NaN, and zeros mean missing."""
    draw = np.random.default_rng(3)
    values = draw.normal(50, 10, (STEPS, NODES, 3))
    values[draw.random(values.shape) < 0.1] = np.nan
    values[draw.random(values.shape) < 0.1] = 0.0
    numbers, mask = observe(values, missing=(0.0,))
    return GraphSeries(
        values=numbers,
        mask=mask,
        start=np.datetime64("2024-01-01T22:00:00"),
        step=1800,
        graph=from_edges(np.zeros((0, 2), np.int64), list("abcde")),
        channels=("flow", "speed", "rain"),
        targets=("speed", "flow"),
        known=("rain",),
    )


@pytest.fixture(scope="module")
def windows(series: GraphSeries) -> Windows:
    return Windows(series, SCALER, T, H)


def tensors(inputs: Inputs) -> dict[str, torch.Tensor]:
    return {field.name: value for field in fields(inputs) if (value := getattr(inputs, field.name)) is not None}


def test_a_batch_of_inputs_equals_naive_slices(series, windows):
    origins = [4, 17, 30, 5]
    batch = windows.inputs(torch.tensor(origins))
    assert batch.steps == T
    clock = series.calendar_at(np.arange(STEPS))
    for row, origin in enumerate(origins):
        past, ahead = slice(origin - T, origin), slice(origin, origin + H)
        scaled = (series.values[past] - SCALER.mean) / SCALER.deviation
        expected = np.where(series.mask[past], scaled, 0)
        assert batch.values[row].numpy() == pytest.approx(expected, abs=1e-5)
        assert np.array_equal(batch.observed[row].numpy(), series.mask[past].astype(np.float32))
        assert batch.slot[row].tolist() == clock.slot[origin - T : origin + H].tolist()
        assert batch.day[row].tolist() == clock.day[origin - T : origin + H].tolist()
        rain = (series.values[ahead, :, 2:] - SCALER.mean[2]) / SCALER.deviation[2]
        given_ahead = series.mask[ahead, :, 2:]
        assert batch.known[row].numpy() == pytest.approx(np.where(given_ahead, rain, 0), abs=1e-5)
        assert np.array_equal(batch.known_observed[row].numpy(), given_ahead.astype(np.float32))


def test_a_batch_of_labels_equals_naive_slices_in_the_order_of_the_targets(series, windows):
    origins = [4, 17, STEPS - H]
    batch = windows.labels(torch.tensor(origins))
    for row, origin in enumerate(origins):
        came = series.values[origin : origin + H][..., [1, 0]]
        assert np.array_equal(batch.values[row].numpy(), np.nan_to_num(came, nan=0.0))
        assert np.array_equal(batch.observed[row].numpy(), series.mask[origin : origin + H][..., [1, 0]])
        assert np.array_equal(batch.numeric[row].numpy(), np.isfinite(came))


def test_unobserved_inputs_are_0_with_flag_0(series, windows):
    batch = windows.inputs(torch.tensor([10]))
    gone = ~series.mask[10 - T : 10]
    assert gone.any()
    assert not batch.values[0].numpy()[gone].any()
    assert not batch.observed[0].numpy()[gone].any()


def test_a_zero_that_means_missing_stays_a_number_and_a_nan_does_not(series):
    values = np.full((10, 1, 1), 7.0)
    values[8], values[9] = 0.0, np.nan
    numbers, mask = observe(values, missing=(0.0,))
    alone = replace(
        series,
        values=numbers,
        mask=mask,
        graph=series.graph.select([0]),
        channels=("flow",),
        targets=("flow",),
        known=(),
    )
    labels = Windows(alone, Scaler(np.zeros(1), np.ones(1)), T, H).labels(torch.tensor([7]))
    assert labels.values.flatten().tolist() == [7.0, 0.0, 0.0]
    assert labels.observed.flatten().tolist() == [True, False, False]
    assert labels.numeric.flatten().tolist() == [True, True, False]


def test_an_observed_zero_is_observed(series):
    numbers, mask = observe(np.zeros((STEPS, NODES, 3)))
    labels = Windows(replace(series, values=numbers, mask=mask), SCALER, T, H).labels(torch.tensor([9]))
    assert labels.observed.all()
    assert labels.numeric.all()


def test_the_origin_after_the_last_step_can_be_read(series, windows):
    batch = windows.inputs(torch.tensor([STEPS]))
    assert np.array_equal(batch.observed[0].numpy(), series.mask[-T:].astype(np.float32))
    clock = series.calendar_at(np.arange(STEPS - T, STEPS + H))
    assert batch.slot[0].tolist() == clock.slot.tolist()
    assert batch.day[0].tolist() == clock.day.tolist()
    assert batch.known.shape == (1, H, NODES, 1)
    assert not batch.known.any()
    assert not batch.known_observed.any()


def test_known_channels_end_where_the_series_ends(series, windows):
    batch = windows.inputs(torch.tensor([STEPS - 2]))
    given_ahead = series.mask[-2:, :, 2]
    assert np.array_equal(batch.known_observed[0, :2, :, 0].numpy(), given_ahead.astype(np.float32))
    assert given_ahead.any()
    assert not batch.known_observed[0, 2].any()


def test_without_known_channels_there_is_nothing_known(series):
    batch = Windows(replace(series, known=()), SCALER, T, H).inputs(torch.tensor([9, 10]))
    assert batch.known.shape == batch.known_observed.shape == (2, H, NODES, 0)


@given(origin=st.integers(T, STEPS), fill=st.sampled_from([np.nan, 0.0, 1e9]))
def test_no_target_of_the_future_reaches_the_inputs(series, windows, origin, fill):
    values = series.values.copy()
    values[origin:, :, :2] = fill
    numbers, mask = observe(values, missing=(0.0,))
    changed = Windows(replace(series, values=numbers, mask=mask), SCALER, T, H)
    before, after = (tensors(w.inputs(torch.tensor([origin]))) for w in (windows, changed))
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name


def test_the_past_and_the_known_future_do_reach_the_inputs(series, windows):
    values = series.values.copy()
    values[19], values[20, :, 2] = 1e6, 1e6
    numbers, mask = observe(values, missing=(0.0,))
    changed = Windows(replace(series, values=numbers, mask=mask), SCALER, T, H).inputs(torch.tensor([20]))
    before = windows.inputs(torch.tensor([20]))
    assert not torch.equal(before.values[:, -1], changed.values[:, -1])
    assert torch.equal(before.values[:, :-1], changed.values[:, :-1])
    assert not torch.equal(before.known, changed.known)


def test_forecasts_go_back_to_real_units_of_the_targets(windows):
    real = windows.to_real(torch.ones(2, H, NODES, 2))
    assert torch.equal(real[..., 0], torch.full((2, H, NODES), 2.5))  # speed: 2 + 0.5
    assert torch.equal(real[..., 1], torch.full((2, H, NODES), 60.0))  # flow: 50 + 10


def test_windows_store_the_series_once():
    """The windows of 2,000 steps laid out one by one would take 24 times the bytes of the series."""
    steps, nodes = 2000, 20
    values = np.random.default_rng(0).normal(50, 10, (steps, nodes, 1))
    values[::7] = np.nan
    values[1::7] = 0.0
    numbers, mask = observe(values, missing=(0.0,))
    series = GraphSeries(
        values=numbers,
        mask=mask,
        start=np.datetime64("2024-01-01T00:00:00"),
        step=300,
        graph=from_edges(np.zeros((0, 2), np.int64), [str(i) for i in range(nodes)]),
        channels=("flow",),
        targets=("flow",),
    )
    windows = Windows(series, Scaler(np.array([50.0]), np.array([10.0])), 12, 12)
    windows.inputs(torch.arange(12, 100))
    held = sum(x.nbytes for x in vars(windows).values() if isinstance(x, torch.Tensor | np.ndarray))
    assert held < 2 * (series.values.nbytes + series.mask.nbytes)


def test_the_series_handed_in_is_not_changed(series):
    values = series.values.copy()
    windows = Windows(series, SCALER, T, H)
    windows.inputs(torch.tensor([9]))
    windows.labels(torch.tensor([9]))
    assert np.array_equal(series.values, values, equal_nan=True)


def test_a_kind_of_day_that_training_never_met_is_read_as_one_that_it_did():
    series = waves(steps=9 * 24)  # from a Monday on
    scaler = Scaler(np.array([20.0]), np.array([7.0]), kinds=(0, 1, 5))
    windows = Windows(series, scaler, 24, 1)
    friday = windows.inputs(torch.tensor([4 * 24 + 12]))
    assert set(friday.day.flatten().tolist()) == {0, 1}  # of Thursday, a Tuesday's; of Friday, a Monday's
    windows.rescale(Scaler(scaler.mean, scaler.deviation))
    assert set(windows.inputs(torch.tensor([4 * 24 + 12])).day.flatten().tolist()) == {3, 4}


# Earlier days


def test_earlier_days_are_the_hours_of_the_horizon_a_whole_number_of_days_before():
    series = waves(steps=120, missing_share=0.2)  # hourly: a day is 24 steps
    windows = Windows(series, Scaler(np.array([20.0]), np.array([7.0])), 6, 4, days=3)
    for origin in (30, 100, 120):  # the last: the steps after the series
        earlier = windows.inputs(torch.tensor([origin])).earlier
        assert earlier is not None
        for place, back in enumerate((72, 48, 24)):
            at = np.arange(origin, origin + 4) - back
            if at[0] < 0:
                assert not earlier.observed[0, place].any()
                assert not earlier.values[0, place].any()
                continue
            scaled = np.where(series.mask[at], (series.values[at] - 20) / 7, 0)
            assert earlier.values[0, place].numpy() == pytest.approx(scaled, abs=1e-6)
            assert np.array_equal(earlier.observed[0, place].numpy(), series.mask[at])


@pytest.mark.parametrize(
    ("slots", "horizon", "steps"), [(288, 12, 288), (24, 24, 24), (24, 25, 48), (1, 7, 7), (1, 12, 14)]
)
def test_a_season_is_never_shorter_than_the_horizon(slots, horizon, steps):
    assert season(slots, horizon) == steps


@given(origin=st.integers(6, 119), fill=st.sampled_from([np.nan, 1e9]))
def test_no_value_of_the_future_reaches_earlier_days(origin, fill):
    series = waves(steps=120)
    values = series.values.copy()
    values[origin:] = fill
    numbers, mask = observe(values)
    looked = [
        Windows(one, Scaler(np.array([20.0]), np.array([7.0])), 6, 30, days=2).inputs(torch.tensor([origin])).earlier
        for one in (series, replace(series, values=numbers, mask=mask))
    ]
    assert looked[0] is not None
    assert looked[1] is not None
    assert torch.equal(looked[0].values, looked[1].values)
    assert torch.equal(looked[0].observed, looked[1].observed)


@pytest.mark.parametrize("start", ["2024-03-28T00:00", "2024-10-24T00:00", "2024-06-01T00:00"])
@pytest.mark.parametrize("step", [3600, 900])
def test_earlier_days_show_the_same_time_on_the_wall_when_the_clock_was_changed(start, step):
    series = waves(steps=6 * 86400 // step, step=step, zone="Europe/Berlin")
    series = replace(series, start=np.datetime64(f"{start}:00"))
    slot = series.calendar_at(np.arange(len(series) + 4)).slot
    series = replace(series, values=np.broadcast_to(slot[:-4, None, None], series.values.shape).astype(np.float32))
    windows = Windows(series, Scaler(np.array([0.0]), np.array([1.0])), 6, 4, days=3)
    origins = torch.arange(4 * 86400 // step, len(series) + 1)
    earlier = windows.inputs(origins).earlier
    assert earlier is not None
    wanted = slot[origins.numpy()[:, None] + np.arange(4)]
    there = (wanted // (3600 // step) != 2)[:, None] & np.ones((1, 3, 1), dtype=bool)  # an hour that spring leaves out
    shown = earlier.values[..., 0, 0].numpy()
    assert earlier.observed[..., 0, 0].numpy()[there].all()
    assert np.array_equal(shown[there], np.broadcast_to(wanted[:, None], shown.shape)[there])


@given(origin=st.integers(30, 119), autumn=st.booleans(), horizon=st.sampled_from([4, 24, 30]))
def test_no_value_of_the_future_reaches_earlier_days_where_the_clock_is_changed(origin, autumn, horizon):
    start = np.datetime64("2024-10-25T00:00:00" if autumn else "2024-03-29T00:00:00")
    series = replace(waves(steps=120, zone="Europe/Berlin"), start=start)
    values = series.values.copy()
    values[origin:] = 1e9
    looked = [
        Windows(one, Scaler(np.array([20.0]), np.array([7.0])), 6, horizon, days=2).inputs(torch.tensor([origin]))
        for one in (series, replace(series, values=values))
    ]
    assert torch.equal(looked[0].earlier.values, looked[1].earlier.values)


def test_steps_that_are_not_held_are_not_looked_up():
    series = waves(steps=120)
    windows = Windows(series, Scaler(np.array([20.0]), np.array([7.0])), 6, 4, days=2)
    own = np.ones(120, dtype=bool)
    own[76:78] = False  # the first two of yesterday's hours
    windows.hold_steps(own)
    batch = windows.inputs(torch.tensor([100]))
    assert batch.earlier is not None
    assert batch.earlier.observed[0, :, :, 0, 0].tolist() == [[1, 1, 1, 1], [0, 0, 1, 1]]
    assert not batch.earlier.values[0, 1, :2].any()
    assert batch.observed.all()  # windows are read whole
    windows.hold_steps(np.ones(120, dtype=bool))
    again = windows.inputs(torch.tensor([100])).earlier
    assert again is not None
    assert again.observed.all()
