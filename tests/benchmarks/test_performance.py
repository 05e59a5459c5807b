"""The tables of docs/performance.md come from records and say what was missed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from f2stnet.experiments.bench import layer
from f2stnet.experiments.bench.infer import bench_infer
from f2stnet.experiments.bench.layer import Shape, bench_layer
from f2stnet.experiments.bench.roofs import Roofs
from f2stnet.experiments.bench.scale import bench_scale
from f2stnet.experiments.bench.step import bench_step
from f2stnet.experiments.bench.subjects import sensors

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def performance(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("performance")


def place(kind: str, device: str = "cpu") -> str:
    return f"before\n<!-- table: {kind} {device} -->\nold\n<!-- end -->\nafter\n"


def test_results_become_tables_and_the_text_around_stays(
    performance: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, "roofs", lambda device: Roofs(1e10, 1e9))
    monkeypatch.setattr(performance, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(performance, "RECORDS", tmp_path / "performance.jsonl")
    series, quick = sensors(6, 100), {"runs": 1, "seconds": 1}
    results = [
        bench_layer(Shape(1, 3, 2, 4, 2), CPU, ("torch", "closed form", "triton"), **quick),
        bench_step(series, CPU, ["stid"], **quick),
        bench_infer(series, CPU, ["f2stnet"], **quick),
        bench_scale(CPU, Shape(1, 1, 2, 4, 2), (4, 8), (5, 7), trained_up_to=5, width=8, **quick),
    ]
    paths = [tmp_path / f"{result['bench']}.json" for result in results]
    for path, result in zip(paths, results, strict=True):
        path.write_text(json.dumps({"command": f"f2stnet bench {result['bench']}"} | result))
    kinds = performance.KINDS
    (tmp_path / "performance.md").write_text("".join(place(kind) for kind in kinds) + place("layer", "cuda"))
    monkeypatch.setattr(sys, "argv", ["performance.py", *map(str, paths)])
    performance.main()
    text = (tmp_path / "performance.md").read_text()
    assert text.count("before\n") == text.count("after\n") == 5
    assert "old" not in text
    assert text.count("Not measured yet.") == 1
    assert "times faster than closed form" in text
    assert "not measured: triton, last: needs a CUDA device" in text
    for kind in kinds:
        assert f"`f2stnet bench {kind}`" in text
    assert (tmp_path / "performance-steps-cpu.svg").read_text().startswith("<svg")
    assert len((tmp_path / "performance.jsonl").read_text().splitlines()) == 4
    monkeypatch.setattr(sys, "argv", ["performance.py"])
    performance.main()
    assert (tmp_path / "performance.md").read_text() == text  # nothing new, nothing changes


def test_a_missed_target_says_by_how_much(performance: ModuleType) -> None:
    assert "target: at least 8; missed by 50%" in performance.target("times faster", 4.0, at_least=8)
    assert "target: at least 8; met" in performance.target("times faster", 8.0, at_least=8)
    assert "target: below 2; missed by 25%" in performance.target("ms", 2.5, below=2)
    assert "target: below 2; met" in performance.target("ms", 1.9, below=2)


def test_the_newest_result_of_a_device_is_shown(performance: ModuleType) -> None:
    def record(ms: float) -> dict:
        machine = {"device": "cpu", "hardware": "abacus", "commit": None}
        row = {"model": "stid", "parameters": 1, "flops": 1, "ms": ms, "spread": 0, "peak_bytes": 1}
        row |= {"epoch_extrapolated_s": 1.0}
        return {
            "bench": "step",
            "command": "x",
            "machine": machine,
            "nodes": 1,
            "data": "y",
            "rows": [row],
            "absent": {},
        }

    text = performance.render(place("step"), [record(11.0), record(77.0)])
    assert "| 77 |" in text
    assert "| 11 |" not in text


def test_the_document_is_what_its_records_say(performance: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has typed into a table."""
    if not performance.RECORDS.is_file():
        pytest.skip("no records yet")
    monkeypatch.setattr(Path, "write_text", lambda *given, **options: 0)
    records = [json.loads(line) for line in performance.RECORDS.read_text().splitlines()]
    document = performance.PAGE.read_text(encoding="utf-8")
    assert performance.render(document, records) == document
