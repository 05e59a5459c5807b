"""The tables of docs/performance.md, from what `f2stnet bench … --json` printed. No number is typed by hand.

    f2stnet bench layer --json > layer.json
    python benchmarks/performance.py layer.json …     # keep these results, then write the tables
    python benchmarks/performance.py                  # write the tables again

Results are kept in benchmarks/records/performance.jsonl; of each kind the newest one a device is shown. In the document
a table stands between `<!-- table: KIND DEVICE -->` and `<!-- end -->`; the text around it is left alone.
"""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from f2stnet.experiments.bench.plot import curves_over_nodes, curves_over_steps, svg
from f2stnet.experiments.bench.scale import over_linear

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "records" / "performance.jsonl", HERE.parent / "docs" / "performance.md"
PLACE = re.compile(r"(<!-- table: (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
KINDS = ("layer", "step", "infer", "scale")
Record = dict[str, Any]


def layer(found: Record) -> list[str]:
    shape, limits = found["shape"], found["roofs"]
    exponentials = limits["exponentials"]
    lines = [
        "B = {batch}, T = {steps}, N = {nodes}, D = {width}, S = {state}, float32. ".format(**shape)
        + f"Measured roofs: {limits['copy'] / 1e9:,.1f} GB/s copied"
        + (f", {exponentials / 1e9:,.1f} G exponentials/s." if exponentials else "."),
        "",
        *table(
            ["", "output", "pass", "ms", "spread", "as a graph, ms", "of the tighter roof", "peak extra / inputs"],
            [
                [
                    row["name"],
                    row["output"],
                    "forward + backward" if row["backward"] else "forward",
                    number(row["ms"]),
                    f"{row['spread']:.0%}" if row["runs"] > 1 else "one call",
                    number(row.get("captured_ms")),
                    f"{row['share_of_roof']:.1%} ({row['bound']})",
                    number(row["peak_extra_over_inputs"]),
                ]
                for row in found["rows"]
            ],
        ),
        "",
    ]
    return lines + absent(found) + layer_targets(found)


def layer_targets(found: Record) -> list[str]:
    """The issue's targets are for forward and backward of the last output."""
    rows = {row["name"]: row for row in found["rows"] if row["output"] == "last" and row["backward"]}
    ours, cuda = rows.get("triton", rows.get("torch")), found["machine"]["device"] == "cuda"
    if ours is None:
        return []
    wanted = {"closed form": 8, "compiled": 3} if cuda else {"closed form": 3, "mambapy": 8}
    lines = []
    for name, times in wanted.items():
        if name in rows:
            lines.append(target(f"times faster than {name}", rows[name]["ms"] / ours["ms"], at_least=times))
    if cuda:
        lines.append(target("of the tighter roof, as a graph", ours["share_of_roof"], at_least=0.6))
        lines.append(target("peak extra memory over inputs", ours["peak_extra_over_inputs"], below=2))
    elif lines and found["machine"].get("load", 0) > found["machine"]["threads"] + 1:
        lines.append("- others used the cores during this run: it settles no target. Repeat it on an idle machine")
    return lines


def step(found: Record) -> list[str]:
    rows = [
        [
            f"`{row['model']}`",
            f"{row['parameters']:,}",
            number(row["flops"] / 1e9),
            number(row["ms"]),
            f"{row['spread']:.0%}",
            number(row.get("captured_ms")),
            number(row["peak_bytes"] / 1e6),
            number(row["epoch_extrapolated_s"]),
            number(row.get("epoch_s")),
        ]
        for row in found["rows"]
    ]
    heads = ["model", "parameters", "GFLOP a step", "ms a step", "spread", "as a graph, ms", "peak MB"]
    lines = table([*heads, "epoch s, 160 × median", "epoch s, measured"], rows)
    if found["machine"]["device"] == "cuda":
        by_name = {row["model"]: row for row in found["rows"]}
        for name, most in (("paper", 1.0), ("f2stnet", 1.5)):
            if name in by_name:
                seconds = by_name[name].get("epoch_s", by_name[name]["epoch_extrapolated_s"])
                lines.append(target(f"seconds an epoch of `{name}`", seconds, below=most))
    lines += absent(found)
    return [f"{found['nodes']} sensors ({found['data']}), batch 64, twelve steps in, twelve out.", "", *spaced(lines)]


def infer(found: Record) -> list[str]:
    rows = [
        [
            f"`{row['model']}`",
            f"{row['parameters']:,}",
            number(row["flops"] / 1e6),
            number(row["flops_by_hand"] and row["flops_by_hand"] / 1e6),
            number(row["latency_ms"]),
            f"{row['latency_spread']:.0%}",
            number(row.get("captured_latency_ms")),
            f"{row['windows_a_second']:,.0f}",
            number(row["peak_bytes"] / 1e6),
        ]
        for row in found["rows"]
    ]
    heads = ["model", "parameters", "MFLOP counted", "by hand", "one window, ms", "spread", "as a graph, ms"]
    lines = table([*heads, "windows/s, 64 together", "peak MB, 64 together"], rows)
    by_name = {row["model"]: row for row in found["rows"]}
    if "f2stnet" in by_name:
        lines.append(target("GFLOP a window of `f2stnet`, counted", by_name["f2stnet"]["flops"] / 1e9, below=2.1))
    if found["machine"]["device"] == "cuda":
        for name, most in (("paper", 1.0), ("f2stnet", 2.0)):
            if name in by_name:
                best = by_name[name].get("captured_latency_ms", by_name[name]["latency_ms"])
                lines.append(target(f"ms a forecast of one window by `{name}`", best, below=most))
    lines += absent(found)
    return [f"{found['nodes']} sensors ({found['data']}), twelve steps in, twelve out.", "", *spaced(lines)]


def scale(found: Record) -> list[str]:
    device = found["machine"]["device"]
    for name, curves, x, y in (
        ("steps", curves_over_steps(found), "steps T", "ms, forward and backward"),
        ("nodes", curves_over_nodes(found, "ms"), "nodes N", "ms"),
    ):
        (PAGE.parent / f"performance-{name}-{device}.svg").write_text(svg(curves, x, y), encoding="utf-8")
    shape, model = found["layer"], found["model"]
    over_steps = table(
        ["output", "T", "ms", "µs a step", "inputs MB", "beyond inputs, output, gradients: MB"],
        [
            [
                row["output"],
                f"{row['steps']:,}",
                number(time := row.get("captured_ms", row["ms"])),
                number(1e3 * time / row["steps"]),
                number(row["inputs"] / 1e6),
                number(row["beyond"] / 1e6),
            ]
            for row in found["steps"]
        ],
    )
    for output in ("last", "all"):
        ratio = over_linear(found["steps"], output)
        if ratio is not None:
            over_steps.append(target(f"time over linear, {output}", ratio, below=1.3))
    over_nodes = table(
        ["N", "forecast ms", "peak MB", "training step ms", "peak MB"],
        [[f"{row['nodes']:,}", *cost(row.get("forecast")), *cost(row.get("step"))] for row in found["nodes"]],
    )
    return [
        "The layer, forward and backward, B = {batch}, N = {nodes}, D = {width}, S = {state}:".format(**shape),
        "",
        f"![time over steps](performance-steps-{device}.svg)",
        "",
        *spaced(over_steps),
        "",
        f"`{model['name']}` of width {model['width']}; a forecast of one window, a training step of {model['batch']}:",
        "",
        f"![time over nodes](performance-nodes-{device}.svg)",
        "",
        *over_nodes,
    ]


TABLES: dict[str, Callable[[Record], list[str]]] = {"layer": layer, "step": step, "infer": infer, "scale": scale}


def provenance(found: Record) -> str:
    at = found["machine"]
    kept = ("python", "torch", "triton", "mambapy", "threads")
    versions = ", ".join(f"{name} {at[name]}" for name in kept if name in at)
    busy = f", load average {at['load']} after the run" if "load" in at else ""
    return f"{at['hardware']}; {versions}{busy}; commit {at['commit'] or 'not known'}: `{found['command']}`"


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row)} |" for row in rows)]


def absent(found: Record) -> list[str]:
    return [f"- not measured: {name}: {why}" for name, why in found["absent"].items()]


def spaced(lines: list[str]) -> list[str]:
    """A blank line between a table and the list after it."""
    first = next((place for place, line in enumerate(lines) if line.startswith("- ")), len(lines))
    return [*lines[:first], *([""] if first < len(lines) else []), *lines[first:]]


def target(what: str, found: float, at_least: float | None = None, below: float | None = None) -> str:
    if at_least is not None:
        verdict = "met" if found >= at_least else f"missed by {1 - found / at_least:.0%}"
        return f"- {what}: {number(found)} (target: at least {at_least:g}; {verdict})"
    assert below is not None
    verdict = "met" if found < below else f"missed by {found / below - 1:.0%}"
    return f"- {what}: {number(found)} (target: below {below:g}; {verdict})"


def cost(found: dict[str, Any] | None) -> list[str]:
    if found is None or "failed" in found:
        return [found["failed"] if found else "–", "–"]
    return [number(found["ms"]), number(found["peak_bytes"] / 1e6)]


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def render(text: str, records: list[Record]) -> str:
    newest = {(record["bench"], record["machine"]["device"]): record for record in records}

    def fill(place: re.Match[str]) -> str:
        found = newest.get((place[2], place[3]))
        body = ["Not measured yet."] if found is None else [*TABLES[place[2]](found), "", provenance(found)]
        return place[1] + "\n" + "\n".join(body) + "\n\n" + place[4]

    return PLACE.sub(fill, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--commit", help="where a result does not know its own")
    options = parser.parse_args()
    for path in options.results:
        found = json.loads(path.read_text())
        if found.get("bench") not in KINDS:
            raise SystemExit(f"{path}: not a result of f2stnet bench")
        found["machine"]["commit"] = found["machine"]["commit"] or options.commit
        with RECORDS.open("a", encoding="utf-8") as records:
            records.write(json.dumps(found) + "\n")
    kept = [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.is_file() else []
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")


if __name__ == "__main__":
    main()
