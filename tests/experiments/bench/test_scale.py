"""Growth is measured at every asked-for size and drawn."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

from f2stnet.experiments.bench.layer import Shape
from f2stnet.experiments.bench.plot import curves_over_nodes, curves_over_steps, scale_page, svg
from f2stnet.experiments.bench.scale import bench_scale, over_linear

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def found() -> dict:
    return bench_scale(CPU, Shape(1, 1, 2, 4, 2), (8, 70), (5, 12, 30), trained_up_to=12, width=8, runs=1, seconds=1)


def test_every_size_has_its_row(found: dict) -> None:
    assert [(row["output"], row["steps"]) for row in found["steps"]] == [
        ("last", 8), ("last", 70), ("all", 8), ("all", 70),
    ]  # fmt: skip
    assert [row["nodes"] for row in found["nodes"]] == [5, 12, 30]
    assert ["step" in row for row in found["nodes"]] == [True, True, False]
    for row in found["nodes"]:
        assert row["forecast"]["ms"] > 0
        assert row["forecast"]["peak_bytes"] > 0


def test_memory_beyond_is_what_inputs_output_and_gradients_are_not(found: dict) -> None:
    for row in found["steps"]:
        steps, every = row["steps"], row["output"] == "all"
        u, b, c = steps * 2 * 4, steps * 2 * 2, (steps if every else 1) * 2 * 2  # N = 2, D = 4, S = 2
        assert row["inputs"] == 4 * (2 * u + b + c + 4 * 2 + 4)
        assert 0 <= row["beyond"] < row["peak_extra"]


def test_linear_growth_is_a_ratio_of_one() -> None:
    rows = [{"output": "last", "steps": t, "ms": 3.0 * t} for t in (192, 768, 8192)]
    assert over_linear(rows, "last") == pytest.approx(1)
    rows[-1]["captured_ms"] = 6.0 * 8192
    assert over_linear(rows, "last") == pytest.approx(2)
    assert over_linear(rows, "all") is None


def test_twice_the_height_for_the_square_on_logarithmic_axes() -> None:
    drawn = ElementTree.fromstring(svg({"linear": [(1, 1), (10, 10)], "<b>": [(1, 1), (10, 100)]}, "x", "y"))
    circles = [item for item in drawn.iter() if item.tag.endswith("circle")]
    heights = [float(circle.attrib["cy"]) for circle in circles]
    assert heights[0] - heights[1] == pytest.approx((heights[2] - heights[3]) / 2, abs=0.2)
    assert "<b>" in [item.text for item in drawn.iter()]


def test_curves_and_their_page(found: dict, tmp_path: Path) -> None:
    assert set(curves_over_steps(found)) == {"last output", "all outputs"}
    over_nodes = curves_over_nodes(found, "ms")
    assert [len(line) for line in over_nodes.values()] == [3, 2]
    scale_page(found).write(tmp_path / "scale.html")
    page = (tmp_path / "scale.html").read_text()
    assert page.count("<svg") == 3
    assert "times linear" in page
    assert len(page) < 100_000  # no script library is needed


def test_what_did_not_fit_leaves_a_gap(found: dict) -> None:
    holed = found | {"nodes": [found["nodes"][0], found["nodes"][1] | {"step": {"failed": "not enough memory"}}]}
    assert [len(line) for line in curves_over_nodes(holed, "ms").values()] == [2, 1]
