"""What was measured, as the tables that people read: headings, and cells as text."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Found = dict[str, Any]
Columns = dict[str, tuple[str, Callable[[Any], str]]]  # heading: key of a row, how its value is shown


class Shown(NamedTuple):
    title: str
    headings: list[str]
    rows: list[list[str]]
    note: str = ""


def tables_of(found: Found) -> list[Shown]:
    return TABLES[found["bench"]](found)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _layer(found: Found) -> list[Shown]:
    limits = found["roofs"]
    taken = f", {limits['exponentials'] / 1e9:,.1f} G exponentials/s" if limits["exponentials"] else ""
    columns: Columns = {
        "": ("name", str),
        "output": ("output", str),
        "pass": ("backward", lambda both: "forward + backward" if both else "forward"),
        "ms": ("ms", number),
        "spread": ("spread", "{:.0%}".format),
        "as a graph, ms": ("captured_ms", number),
        "of the roof": ("share_of_roof", "{:.1%}".format),
        "peak extra / inputs": ("peak_extra_over_inputs", "{:.2f}".format),
    }
    if found["machine"]["device"] != "cuda":
        del columns["as a graph, ms"]
    note = f"roofs: {limits['copy'] / 1e9:,.1f} GB/s copied{taken}"
    return [_shown("the layer, " + _listed(found["shape"]), found["rows"], columns, note)]


def _step(found: Found) -> list[Shown]:
    columns: Columns = {
        "model": ("model", str),
        "parameters": ("parameters", "{:,}".format),
        "GFLOP": ("flops", _over(1e9)),
        "batch": ("batch", str),
        "ms": ("ms", number),
        "spread": ("spread", "{:.0%}".format),
        "as a graph, ms": ("captured_ms", number),
        "peak MB": ("peak_bytes", _megabytes),
        "epoch s, steps × median": ("epoch_extrapolated_s", number),
        "epoch s, measured": ("epoch_s", number),
    }
    return [_shown(f"a training step, {found['nodes']} sensors", found["rows"], columns)]


def _infer(found: Found) -> list[Shown]:
    columns: Columns = {
        "model": ("model", str),
        "parameters": ("parameters", "{:,}".format),
        "MFLOP counted": ("flops", _over(1e6)),
        "by hand": ("flops_by_hand", _over(1e6)),
        "one window, ms": ("latency_ms", number),
        "spread": ("latency_spread", "{:.0%}".format),
        "as a graph, ms": ("captured_latency_ms", number),
        "windows/s, 64 together": ("windows_a_second", "{:,.0f}".format),
        "peak MB": ("peak_bytes", _megabytes),
    }
    note = (
        "FLOPs of one window's matrix products: exponentials and other single entries are in neither count; torch "
        "counts a sparse product as a dense one."
    )
    return [_shown(f"forecasts, {found['nodes']} sensors", found["rows"], columns, note)]


def _scale(found: Found) -> list[Shown]:
    model = found["model"]
    steps: list[list[str]] = []
    for row in found["steps"]:
        ms, count = row.get("captured_ms", row["ms"]), row["steps"]
        sizes = (f"{row[key] / 1e6:,.1f}" for key in ("inputs", "beyond"))
        steps.append([row["output"], f"{count:,}", number(ms), number(1e3 * ms / count), *sizes])
    nodes = [
        [f"{row['nodes']:,}", number(row["setup_s"]), *_cost(row.get("forecast")), *_cost(row.get("step"))]
        for row in found["nodes"]
    ]
    over_steps, over_nodes = (
        ["output", "steps", "ms", "µs a step", "inputs MB", "beyond MB"],
        ["nodes", "made in s", "forecast ms", "peak MB", "training step ms", "peak MB"],
    )
    told = f"{model['name']} of width {model['width']} over nodes; a training step has batch {model['batch']}"
    return [
        Shown("the layer over steps, " + _listed(found["layer"]), over_steps, steps),
        Shown(told, over_nodes, nodes),
    ]


TABLES: dict[str, Callable[[Found], list[Shown]]] = {"layer": _layer, "step": _step, "infer": _infer, "scale": _scale}


def _shown(title: str, rows: Iterable[Found], columns: Columns, note: str = "") -> Shown:
    cells = [["–" if row.get(key) is None else form(row[key]) for key, form in columns.values()] for row in rows]
    return Shown(title, list(columns), cells, note)


def _listed(values: Found) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _over(unit: float) -> Callable[[float], str]:
    return lambda value: number(value / unit)


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f}"


def _cost(found: Found | None) -> tuple[str, str]:
    if found is None or "failed" in found:
        return (found["failed"] if found else "–"), "–"
    return number(found["ms"]), _megabytes(found["peak_bytes"])
