"""Readings that no longer follow one another are pointed out, and nothing that only looks a little like it."""

from dataclasses import replace

import numpy as np

from f2stnet.data.check import check
from f2stnet.data.disorder import disorder
from f2stnet.series import GraphSeries
from small import waves


def shuffled(series: GraphSeries, begin: int, end: int, seed: int = 0) -> GraphSeries:
    """The same readings, those of the steps begin … end − 1 in another order at each sensor."""
    draw, values = np.random.default_rng(seed), series.values.copy()
    values[begin:end] = draw.permuted(values[begin:end], axis=0)
    return replace(series, values=values)


def test_a_stretch_out_of_order_is_named_with_its_times() -> None:
    series = waves(steps=24 * 40, nodes=4)
    assert disorder(series) == []
    (remark,) = disorder(shuffled(series, 24 * 30, 24 * 40))
    assert "from about 2024-01-31 00:00 to 2024-02-09 23:00" in remark
    assert "since and until" in remark
    assert remark in check(shuffled(series, 24 * 30, 24 * 40)).remarks
    assert len(disorder(shuffled(shuffled(series, 0, 24 * 5), 24 * 30, 24 * 35))) == 2


def test_a_target_is_named_where_there_are_several() -> None:
    series = waves(steps=24 * 40, nodes=3, channels=2)
    mixed = series.values.copy()
    mixed[:, :, 1] = shuffled(series, 24 * 20, 24 * 30).values[:, :, 1]
    (remark,) = disorder(replace(series, values=mixed))
    assert remark.startswith(f"readings of {series.channels[1]} hardly follow")


def test_noise_has_no_order_to_lose_and_a_short_stretch_tells_nothing() -> None:
    for seed in range(20):
        draw = np.random.default_rng(seed)
        noise = draw.normal(size=(600, 1, 1)).astype(np.float32)
        series = waves(steps=600, nodes=1)
        assert disorder(replace(series, values=noise)) == []
        walk = np.zeros_like(noise)  # readings that correlate by .5: a 24th of them often does by less than .13
        for step in range(1, 600):
            walk[step] = 0.5 * walk[step - 1] + noise[step]
        assert disorder(replace(series, values=walk)) == []
    assert disorder(waves(steps=47, nodes=2)) == []


def test_steps_without_a_reading_and_sensors_that_never_change_say_nothing() -> None:
    series = waves(steps=24 * 40, nodes=4)
    mask, values = series.mask.copy(), series.values.copy()
    mask[24 * 10 : 24 * 20] = False
    values[24 * 25 :] = 3.0
    assert disorder(replace(series, mask=mask, values=values)) == []
