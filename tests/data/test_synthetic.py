"""The synthetic city: what it claims of itself."""

import dataclasses

import numpy as np
import pytest

from f2stnet.data.synthetic import KINDS, CityConfig, city, layout, noise_floor, regions
from f2stnet.data.synthetic.demand import incident_drops, mean_flow, waves
from f2stnet.data.synthetic.sensors import MEAN_ABSOLUTE, noise_deviation
from f2stnet.errors import InputError
from f2stnet.series import GraphSeries

DEFAULT = CityConfig()


@pytest.fixture(scope="module")
def default() -> GraphSeries:
    return city(DEFAULT)


def usual_day(series: GraphSeries, days: tuple[int, ...]) -> np.ndarray:
    """[slots, N]: the mean of the true flow over these days of the week (the series starts on a Monday)."""
    by_day = series.truth[..., 0].reshape(-1, series.slots_per_day, len(series.nodes))
    return by_day[np.isin(np.arange(len(by_day)) % 7, days)].mean(axis=0)


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_city(default):
    again, other = city(DEFAULT), city(CityConfig(seed=1))
    assert default.values.tobytes() == again.values.tobytes()
    assert default.truth.tobytes() == again.truth.tobytes()
    assert default.graph.digest == again.graph.digest
    assert other.graph.digest != default.graph.digest
    assert not np.array_equal(other.truth, default.truth)


def test_a_switched_off_part_leaves_the_others_as_they_were(default):
    clean = city(dataclasses.replace(DEFAULT, noise=0.0, missing=0.0))
    assert np.array_equal(clean.truth, default.truth)
    assert np.array_equal(clean.values, clean.truth)
    assert clean.mask.all()
    assert noise_floor(clean) == {"mae": 0.0, "rmse": 0.0}


def test_the_series_is_what_it_says(default):
    assert default.values.shape == default.truth.shape == (28 * 96, 60, 1)
    assert default.values.dtype == default.truth.dtype == np.float32
    assert default.channels == default.targets == ("flow",)
    assert default.unit == "vehicles / 15min"
    assert default.step == 900
    assert default.calendar_at(np.array([0])).day[0] == 0  # a Monday, 00:00
    assert np.array_equal(default.mask, np.isfinite(default.values))
    assert np.nanmin(default.values) > 0
    lat, lon = default.graph.coordinates.T
    assert (np.abs(lat - 50) < 1).all()
    assert (np.abs(lon - 10) < 1).all()


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 8, 60, 307])
def test_roads_are_connected_planar_and_few(nodes):
    plan = layout(CityConfig(nodes=nodes))
    graph = city(CityConfig(nodes=nodes, days=1)).graph
    assert graph.components.max() == 0
    assert not graph.notes
    if nodes >= 60:
        assert 2.5 <= 2 * graph.edge_count / nodes <= 3.5
    assert crossings(plan.position, np.stack([plan.source, plan.sink], axis=1)) == 0


def crossings(position: np.ndarray, roads: np.ndarray) -> int:
    """How many pairs of roads meet elsewhere than at a sensor."""

    def side(a, b, c):
        (ax, ay), (bx, by), (cx, cy) = (np.moveaxis(point, -1, 0) for point in (a, b, c))
        return np.sign((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))

    a, b = (position[roads[:, None, end]] for end in (0, 1))
    c, d = (position[roads[None, :, end]] for end in (0, 1))
    apart = (roads[:, None, :, None] != roads[None, :, None, :]).all(axis=(2, 3))
    cross = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    return int((cross & apart).sum()) // 2


def test_crossings_are_found_where_there_are_some():
    square = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert crossings(square, np.array([[0, 1], [2, 3]])) == 1
    assert crossings(square, np.array([[0, 2], [1, 3]])) == 0


def test_the_noise_floor_agrees_with_the_known_deviation(default):
    seen = default.mask[..., 0]
    deviation = noise_deviation(default.truth[..., 0].astype(np.float64), DEFAULT.noise)[seen]
    floor = noise_floor(default)
    assert floor["rmse"] == pytest.approx(np.sqrt(np.mean(deviation**2)), rel=0.02)
    assert floor["mae"] == pytest.approx(MEAN_ABSOLUTE * deviation.mean(), rel=0.02)


def test_the_truth_is_mean_and_median_of_what_is_shown():
    series = city(dataclasses.replace(DEFAULT, noise=3.0, missing=0.0))
    truth = series.truth.astype(np.float64)
    error = (series.values - truth) / noise_deviation(truth, 3.0)
    assert abs(error.mean()) < 4 / np.sqrt(error.size)
    assert abs(np.median(error)) < 5 / np.sqrt(error.size)
    assert error.std() == pytest.approx(1, rel=0.01)
    assert series.values.min() > 0  # by its bounds, not by clipping


def test_the_noise_floor_counts_the_chosen_steps_only(default):
    quiet, busy = np.arange(0, 16), np.arange(32, 40)  # before four, and the morning peak
    assert noise_floor(default, quiet)["mae"] < 0.5 * noise_floor(default, busy)["mae"]


def test_a_series_without_truth_has_no_noise_floor(default):
    with pytest.raises(InputError, match="true mean is not known"):
        noise_floor(dataclasses.replace(default, truth=None))


@pytest.mark.parametrize("missing", [0.02, 0.2])
def test_the_missing_share_is_the_configured_one_in_steps_and_in_outages(missing):
    gone = ~city(CityConfig(nodes=200, missing=missing)).mask[..., 0]
    assert gone.mean() == pytest.approx(missing, rel=0.1)
    # A missing value inside an outage has missing neighbours; a single dropout mostly has none.
    inside = gone[1:-1] & gone[:-2] & gone[2:]
    assert 0.3 * missing < inside.mean() < 0.7 * missing


def test_weekdays_have_two_peaks_and_weekends_differ(default):
    kind = np.array(regions(DEFAULT))
    for name in KINDS:
        day = usual_day(default, (0, 1, 2, 3, 4))[:, kind == name].mean(axis=1)
        by_hour = day.reshape(24, -1).mean(axis=1)
        later = np.roll(by_hour, -1)
        earlier = np.roll(by_hour, 1)
        peaks = np.flatnonzero((by_hour > earlier) & (by_hour > later) & (by_hour > 1.2 * by_hour.mean()))
        assert len(peaks) == 2, (name, peaks)
        assert peaks[0] < 12 < peaks[1]
    weekday, weekend = (usual_day(default, days).mean(axis=1) for days in ((0, 1, 2, 3, 4), (5, 6)))
    assert weekend.mean() < 0.8 * weekday.mean()
    assert np.corrcoef(weekday, weekend)[0, 1] < 0.7


def test_regions_differ_in_their_days(default):
    kind = np.array(regions(DEFAULT))
    assert set(kind) == set(KINDS)
    assert all(name.startswith(region[:3]) for name, region in zip(default.nodes, kind, strict=True))
    weekday, weekend = usual_day(default, (0, 1, 2, 3, 4)), usual_day(default, (5, 6))
    first_peak = {k: weekday[:48, kind == k].mean(axis=1).argmax() / 4 for k in KINDS}
    assert first_peak["industrial"] < first_peak["residential"] < first_peak["business"]
    share = {k: weekend[:, kind == k].mean() / weekday[:, kind == k].mean() for k in KINDS}
    assert share["leisure"] > 1 > share["residential"] > share["business"]


def residuals(series: GraphSeries) -> np.ndarray:
    """[T, N]: relative departure from the mean of the same time of the week, 0 where nothing was seen."""
    seen = np.where(series.mask, series.values, np.nan)[..., 0]
    weeks = seen.reshape(-1, 7 * series.slots_per_day, seen.shape[1])
    usual = np.nanmean(weeks, axis=0)
    return np.nan_to_num((weeks / usual - 1).reshape(seen.shape))


def test_waves_arrive_downstream_after_the_roads_lag():
    config = CityConfig(nodes=40, days=56)
    plan, rest = layout(config), residuals(city(config))
    # The main roads out of nodes that no road leads to: what they carry starts there.
    first = np.flatnonzero(~plan.fed[plan.source] & (plan.weight > 0.85))
    assert len(first) >= 3
    for road in first:
        up, down, lag = rest[:, plan.source[road]], rest[:, plan.sink[road]], plan.lag[road]
        behind = range(-8, 9)
        strength = [np.corrcoef(up[8:-8], down[8 + shift : len(down) - 8 + shift])[0, 1] for shift in behind]
        best = behind[int(np.argmax(strength))]
        assert best > 0
        assert abs(best - lag) <= 1
        assert max(strength) > 0.6


def test_neighbours_recent_past_helps_a_linear_forecast():
    """Four steps ahead, fitted on the first three fifths and scored on the last fifth."""
    config = CityConfig(nodes=40, days=56)
    series = city(config)
    rest, ahead, reach = residuals(series), 4, 12
    origin = np.arange(reach, len(rest) - ahead)
    past = rest[origin[:, None] - 1 - np.arange(reach)]  # [W, reach, N]
    train, test = origin < 0.6 * len(rest), origin >= 0.8 * len(rest)
    near = (series.graph.adjacency + series.graph.adjacency @ series.graph.adjacency).toarray() > 0
    own, with_neighbours = [], []
    for node in range(config.nodes):
        label = rest[origin + ahead - 1, node]
        for errors, read in ((own, [node]), (with_neighbours, np.flatnonzero(near[node]))):
            features = past[:, :, read].reshape(len(origin), -1)
            gram = features[train].T @ features[train] + 0.1 * np.eye(features.shape[1])
            weights = np.linalg.solve(gram, features[train].T @ label[train])
            errors.append(np.abs(features[test] @ weights - label[test]).mean())
    usual = np.abs(rest[origin[test]]).mean()
    floor = np.abs(series.values / series.truth - 1)[series.mask].mean()
    assert np.mean(own) < 0.95 * usual
    assert np.mean(with_neighbours) < 0.9 * np.mean(own)
    assert floor < 0.7 * np.mean(with_neighbours)


def test_an_incident_is_felt_upstream_and_downstream_and_ends():
    calm = CityConfig(nodes=40, days=14, incidents=0.0)
    plan = layout(calm)
    assert not incident_drops(calm, plan).any()
    road = int(np.argmax(plan.weight))
    at, below, lag = plan.source[road], plan.sink[road], plan.lag[road]
    drop = np.zeros((calm.steps, calm.nodes), dtype=np.float32)
    drop[100:108, at] = np.log(0.4)
    change = waves(calm, plan, drop) - waves(calm, plan, np.zeros_like(drop))
    assert change[100:108, at] == pytest.approx(np.log(0.4), abs=1e-5)
    assert change[100 + lag, below] == pytest.approx(plan.weight[road] * np.log(0.4), abs=1e-5)
    assert not change[:100].any()
    assert abs(change[-1]).max() < 1e-5
    rough = incident_drops(dataclasses.replace(calm, incidents=0.01), plan)
    hit, queued = rough <= np.log(0.7) + 1e-6, np.argwhere((rough < 0) & (rough > np.log(0.7)))
    assert len(queued)
    for step, node in queued:
        out = plan.source == node
        assert hit[step - plan.lag[out], plan.sink[out]].any()


def test_rain_is_known_in_the_future_and_moves_demand():
    config = CityConfig(weather=True)
    wet, dry = city(config), city(DEFAULT)
    assert wet.channels == ("flow", "rain")
    assert wet.targets == ("flow",)
    assert wet.known == ("rain",)
    rain = wet.values[:, 0, 1]
    assert 0.05 < (rain > 0).mean() < 0.5
    assert np.array_equal(wet.values[..., 1], wet.truth[..., 1])
    assert wet.mask[..., 1].all()
    ratio = wet.truth[..., 0] / dry.truth[..., 0]
    kind = np.array(regions(config))
    assert ratio[rain == 0] == pytest.approx(1, abs=1e-5)
    assert ratio[rain > 3][:, kind == "leisure"].max() < 0.85
    assert ratio[rain > 3][:, kind == "residential"].min() > 1.05
    assert noise_floor(wet)["mae"] == pytest.approx(noise_floor(dry)["mae"], rel=0.1)  # rain is no target


def test_flow_is_counted_per_step():
    quarter, five = (mean_flow(config, layout(config), None) for config in (DEFAULT, CityConfig(step="5min")))
    assert five.mean() == pytest.approx(quarter.mean() / 3, rel=0.1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nodes", 0),
        ("days", 0),
        ("seed", -1),
        ("step", "7min"),
        ("step", "1d"),
        ("noise", -0.1),
        ("waves", 1.5),
        ("incidents", -1.0),
        ("missing", 1.0),
    ],
)
def test_impossible_cities_are_refused_by_key(key, value):
    with pytest.raises(InputError, match=f"^{key} = "):
        CityConfig(**{key: value})
