"""GraphSeries: what it refuses, and how it is cut."""

from dataclasses import replace
from datetime import date

import jaxtyping
import numpy as np
import pytest

from f2stnet.errors import InputError
from f2stnet.graph import from_edges
from f2stnet.series import GraphSeries, observe


def small(**changes) -> GraphSeries:
    """6 hourly steps of 3 nodes and 2 channels, numbered 0 … 35, with the truth half a unit above."""
    values = np.arange(36, dtype=np.float32).reshape(6, 3, 2)
    whole = GraphSeries(
        values=values,
        mask=np.ones(values.shape, dtype=bool),
        start=np.datetime64("2024-01-01T22:00:00"),
        step=3600,
        graph=from_edges(np.array([[0, 1], [1, 2]]), ["a", "b", "c"]),
        channels=("flow", "rain"),
        targets=("flow",),
        known=("rain",),
        name="small",
        truth=values + np.float32(0.5),
    )
    return replace(whole, **changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"values": np.zeros((6, 3, 2))}, r"values float64\[6, 3, 2\]: expected float32"),
        ({"values": np.zeros((6, 3), np.float32)}, r"values float32\[6, 3\]: expected float32\[steps, nodes, channels"),
        ({"mask": np.ones((6, 3, 2), int)}, r"mask int64\[6, 3, 2\]: expected bool\[6, 3, 2\], as values"),
        ({"mask": np.ones((5, 3, 2), bool)}, r"mask bool\[5, 3, 2\]: expected bool\[6, 3, 2\]"),
        ({"start": "2024-01-01"}, "start '2024-01-01': expected a numpy.datetime64"),
        ({"step": 0}, "step 0: expected whole seconds"),
        ({"step": 3600.0}, "step 3600.0: expected whole seconds"),
        ({"targets": ["flow"]}, r"known \['flow'\]: expected a tuple of names"),
        ({"values": np.full((6, 3, 2), np.nan, np.float32)}, "observed .* where values is NaN or inf"),
    ],
)
def test_what_is_made_by_hand_is_looked_at_first(changes, told, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside of tests
    with pytest.raises(InputError, match=f"series 'small': .*{told}"):
        small(**changes)


def test_its_sizes_and_indices():
    series = small()
    assert len(series) == 6
    assert series.nodes == ("a", "b", "c")
    assert series.target_index == (0,)
    assert series.known_index == (1,)
    assert series.slots_per_day == 24


def test_stamps_go_past_the_end():
    series = small()
    assert series.stamps[-1] == np.datetime64("2024-01-02T03:00")
    assert series.stamps_at(np.array([6]))[0] == np.datetime64("2024-01-02T04:00")
    assert series.calendar_at(np.array([0, 2, 6])).slot.tolist() == [22, 0, 4]
    assert series.calendar_at(np.array([0, 2, 6])).day.tolist() == [0, 1, 1]


def test_a_cut_keeps_stamps_and_values_together():
    part = small().cut(2, 5)
    assert len(part) == 3
    assert part.start == np.datetime64("2024-01-02T00:00")
    assert part.values[0, 0, 0] == 12
    assert part.truth is not None
    assert part.truth[0, 0, 0] == 12.5
    assert part.mask.shape == part.values.shape


def test_a_cut_is_a_view():
    series = small()
    assert np.shares_memory(series.cut(1, 3).values, series.values)


def test_a_cut_has_its_own_service_hours():
    series = small(service_hours=(0, 2 * 3600))
    assert series.in_service.tolist() == [False, False, True, True, False, False]
    assert series.cut(1, 4).in_service.tolist() == [False, True, True]


def test_selected_nodes_come_in_the_asked_order_with_their_edges():
    part = small().select([2, 1])
    assert part.nodes == ("c", "b")
    assert part.values[0, :, 0].tolist() == [4, 2]
    assert part.truth is not None
    assert part.truth[0, :, 0].tolist() == [4.5, 2.5]
    assert part.graph.edge_count == 1
    assert small().select([0, 2]).graph.edge_count == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channels": ("flow",)}, "has 2 channels, named are 1"),
        ({"targets": ("speed",)}, "target channel 'speed' is not in the data: flow, rain"),
        ({"known": ("wind",)}, "known channel 'wind' is not in the data"),
        ({"targets": ()}, "no target channel"),
        ({"targets": ("flow", "rain")}, "'rain' cannot be both a target and known"),
        ({"graph": from_edges(np.array([[0, 1]]), ["a", "b"])}, "has 3 nodes, its graph 2"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_observed_numbers_and_codes():
    numbers, mask = observe(np.array([1.0, 0.0, -999.0, np.nan, np.inf, -0.0]), missing=(-999.0, 0.0))
    assert numbers.dtype == np.float32
    assert np.array_equal(numbers, np.array([1, 0, np.nan, np.nan, np.nan, 0], np.float32), equal_nan=True)
    assert mask.tolist() == [True, False, False, False, False, False]


def test_a_zero_is_an_observation_unless_the_set_says_otherwise():
    numbers, mask = observe(np.array([0, 5]))
    assert numbers.tolist() == [0, 5]
    assert mask.all()


def test_observing_leaves_the_array_handed_in_alone():
    raw = np.array([-1.0, 2.0], dtype=np.float32)
    observe(raw, missing=(-1.0,))
    assert raw.tolist() == [-1, 2]


def test_a_code_is_found_after_rounding_to_float32():
    assert observe(np.array([-999.9]), missing=(-999.9,))[1].tolist() == [False]


@pytest.mark.parametrize(
    "change",
    [
        {"targets": ("rain",), "known": ()},
        {"known": ()},
        {"zone": "Asia/Shanghai"},
        {"holidays": (date(2024, 1, 1),)},
        {"service_hours": (0, 3600)},
    ],
)
def test_another_task_on_the_same_numbers_has_another_digest(change):
    assert small(**change).digest != small().digest
    assert small(title="another title").digest == small().digest
