"""What is timed is the same layer: every rival agrees with the oracle."""

import pytest
import torch

from f2stnet.errors import InputError
from f2stnet.experiments.bench import layer as bench
from f2stnet.experiments.bench.layer import ROWS, Shape, bench_layer, make_inputs
from f2stnet.experiments.bench.rivals import closed_form, forms, mambapy_every, mambapy_last
from f2stnet.experiments.bench.roofs import Roofs
from f2stnet.layers.state_space import scan
from f2stnet.layers.state_space.reference import last_output

CPU = torch.device("cpu")
SMALL = Shape(batch=2, steps=5, nodes=3, width=4, state=3)


@pytest.fixture
def _known_roofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "roofs", lambda device: Roofs(copy=1e12, exponentials=1e10))


@pytest.mark.parametrize(("form", "every"), [(closed_form, False), (mambapy_last, False), (mambapy_every, True)])
def test_rivals_equal_the_oracle_and_its_gradients(form: object, every: bool) -> None:
    if form is not closed_form:
        pytest.importorskip("mambapy")
    inputs = [x.detach().double().requires_grad_() for x in make_inputs(SMALL, every, CPU)]
    wanted, got = (scan if every else last_output)(*inputs), form(*inputs)
    torch.testing.assert_close(got, wanted)
    upstream = torch.randn_like(wanted)
    theirs, mine = (torch.autograd.grad(y, inputs, upstream) for y in (wanted, got))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


def test_every_row_is_there_or_says_why_not() -> None:
    for every in (False, True):
        assert set(forms(every, CPU)) == set(ROWS)
    assert "CUDA" in forms(False, CPU)["triton"]
    assert "last output only" in forms(True, CPU)["closed form"]


@pytest.mark.usefixtures("_known_roofs")
def test_the_table_has_a_row_for_each_output_and_pass() -> None:
    found = bench_layer(SMALL, CPU, ("torch", "loop", "closed form", "triton"), runs=2)
    rows = [(row["name"], row["output"], row["backward"]) for row in found["rows"]]
    last = [(name, "last", both) for both in (False, True) for name in ("torch", "loop", "closed form")]
    assert rows == last + [(name, "all", both) for both in (False, True) for name in ("torch", "loop")]
    assert set(found["absent"]) == {"triton, last", "triton, all", "closed form, all"}
    for row in found["rows"]:
        assert row["ms"] > 0
        assert row["peak_extra"] > 0
        assert row["bound"] == "exponentials"
        assert row["share_of_roof"] == pytest.approx(1e3 * row["exponentials"] / 1e10 / row["ms"])


@pytest.mark.usefixtures("_known_roofs")
def test_bytes_and_exponentials_by_hand() -> None:
    """B T N D = 120, B T N S = 90, B N S = 18, D S = 12, D = 4 numbers; y_T has 24."""
    found = bench_layer(SMALL, CPU, ("torch",), ("last",), runs=1)
    given = 4 * (120 + 120 + 12 + 90 + 18 + 4)
    forward, both = found["rows"]
    assert forward["moved"] == given + 4 * 24
    assert both["moved"] == 3 * given + 2 * 4 * 24
    assert forward["exponentials"] == 360
    assert both["exponentials"] == 720
    assert both["peak_extra_over_inputs"] == pytest.approx(both["peak_extra"] / given)


@pytest.mark.usefixtures("_known_roofs")
def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"torch": last_output, "loop": lambda *x: last_output(*x) + 1, "mambapy": lambda *x: 1 / 0}
    monkeypatch.setattr(bench, "forms", lambda every, device: dict(wrong))
    found = bench_layer(SMALL, CPU, tuple(wrong), ("last",), runs=1)
    assert {row["name"] for row in found["rows"]} == {"torch"}
    assert "differs by" in found["absent"]["loop, last"]
    assert "division by zero" in found["absent"]["mambapy, last"]


def test_impossible_shapes_and_rows_are_refused() -> None:
    with pytest.raises(InputError, match="--nodes 0: expected at least 1"):
        Shape(nodes=0)
    with pytest.raises(InputError, match="--rows 'lop'; did you mean 'loop'"):
        bench_layer(SMALL, CPU, ("lop",))
