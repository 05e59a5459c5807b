from f2stnet.experiments.bench.tables import tables_of

MODEL = {
    "model": "stid",
    "parameters": 120_716,
    "flops": 61.8e6,
    "flops_by_hand": None,
    "latency_ms": 1.5512,
    "latency_spread": 0.052,
    "windows_a_second": 1543.2,
    "peak_bytes": 44_700_000,
}


def test_a_value_that_was_not_measured_is_a_dash() -> None:
    (shown,) = tables_of({"bench": "infer", "nodes": 307, "rows": [MODEL]})
    assert shown.title == "forecasts, 307 sensors"
    assert dict(zip(shown.headings, shown.rows[0], strict=True)) == {
        "model": "stid",
        "parameters": "120,716",
        "MFLOP counted": "61.8",
        "by hand": "–",
        "one window, ms": "1.55",
        "spread": "5%",
        "as a graph, ms": "–",
        "windows/s, 64 together": "1,543",
        "peak MB": "45",
    }


def test_growth_is_two_tables_and_says_what_did_not_fit() -> None:
    step = {"output": "last", "steps": 500, "ms": 10.0, "inputs": 2e6, "beyond": 1e6}
    node = {"nodes": 1000, "setup_s": 0.5, "forecast": {"ms": 7.0, "peak_bytes": 3e6}}
    full = node | {"nodes": 9000, "step": {"failed": "not enough memory"}}
    found = {
        "bench": "scale",
        "layer": {"batch": 1},
        "model": {"name": "paper", "width": 8, "batch": 2},
        "steps": [step, step | {"captured_ms": 5.0}],
        "nodes": [node, full],
    }
    over_steps, over_nodes = tables_of(found)
    assert over_steps.rows == [["last", "500", "10", "20", "2.0", "1.0"], ["last", "500", "5", "10", "2.0", "1.0"]]
    assert over_nodes.rows == [
        ["1,000", "0.5", "7", "3", "–", "–"],
        ["9,000", "0.5", "7", "3", "not enough memory", "–"],
    ]
