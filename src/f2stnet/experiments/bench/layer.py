"""The state-space layer on one set of inputs: our implementations beside the others, against the device's roofs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from f2stnet.config import require
from f2stnet.errors import InputError
from f2stnet.experiments.bench.rivals import Form, forms
from f2stnet.experiments.bench.roofs import Roofs, roofs
from f2stnet.experiments.bench.timing import Timing, captured, machine, peak_extra, take_turns
from f2stnet.registry import did_you_mean

ROWS = ("triton", "torch", "loop", "closed form", "compiled", "mambapy")
OUTPUTS = {"last": False, "all": True}
AGREE = 1e-3  # by norm, before anything is timed


@dataclass(frozen=True)
class Shape:
    batch: int = 64  # B
    steps: int = 12  # T
    nodes: int = 307  # N
    width: int = 64  # D
    state: int = 16  # S

    def __post_init__(self) -> None:
        for key, value in asdict(self).items():
            require(value >= 1, f"--{key} {value}: expected at least 1")

    @property
    def exponentials(self) -> int:
        """One for each entry of the state at each step."""
        return self.batch * self.steps * self.nodes * self.width * self.state


def bench_layer(
    shape: Shape,
    device: torch.device,
    rows: Sequence[str] = ROWS,
    outputs: Sequence[str] = tuple(OUTPUTS),
    runs: int = 30,
    seconds: float = 60.0,
) -> dict[str, Any]:
    """A row for each implementation, output and pass. After `seconds` for one table no new round is begun."""
    for name in rows:
        if name not in ROWS:
            raise InputError(f"--rows {name!r}{did_you_mean(name, ROWS)}")
    limits = roofs(device)
    found: list[dict[str, Any]] = []
    absent: dict[str, str] = {}
    for output in outputs:
        every = OUTPUTS[output]
        chosen = {name: form for name, form in forms(every, device).items() if name in rows}
        absent |= {f"{name}, {output}": form for name, form in chosen.items() if isinstance(form, str)}
        present = {name: form for name, form in chosen.items() if not isinstance(form, str)}
        inputs = make_inputs(shape, every, device)
        absent |= {f"{name}, {output}": why for name, why in _not_running(present, inputs).items()}
        for both in (False, True):
            measured = measure(present, inputs, both, device, runs, seconds)
            for name, row in measured.items():
                against = _against(shape, inputs, every, both, limits, row)
                found.append({"name": name, "output": output, "backward": both} | row | against)
        del inputs
    return {
        "bench": "layer",
        "shape": asdict(shape),
        "machine": machine(device),
        "roofs": asdict(limits),
        "rows": found,
        "absent": absent,
    }


def make_inputs(shape: Shape, every: bool, device: torch.device, seed: int = 0) -> list[Tensor]:
    """As the layer starts: A = −1 … −S, unit steps from a hundredth to one by channel, varied by the input."""
    random = torch.Generator(device).manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, device=device, generator=random)

    b, t, n, d, s = shape.batch, shape.steps, shape.nodes, shape.width, shape.state
    unit = 0.01 * 100 ** torch.rand(d, device=device, generator=random)
    delta = unit * functional.softplus(normal(b, t, n, d)) / 0.7
    a = -torch.arange(1, s + 1, device=device).float().repeat(d, 1)
    c = normal(b, t, n, s) if every else normal(b, n, s)
    return [x.requires_grad_() for x in (normal(b, t, n, d), delta, a, normal(b, t, n, s), c, normal(d))]


def measure(
    present: dict[str, Form], inputs: list[Tensor], both: bool, device: torch.device, runs: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """Time and memory of each; on a GPU also as a CUDA graph."""
    works = {name: _work(form, inputs, both) for name, form in present.items()}
    timings = take_turns(works, device, runs, seconds)
    given = sum(x.numel() * x.element_size() for x in inputs)
    found = {}
    for name, work in works.items():
        extra = peak_extra(work, device)
        found[name] = _plain(timings[name]) | {"peak_extra": extra, "peak_extra_over_inputs": extra / given}
        if device.type == "cuda":
            try:
                found[name]["captured_ms"] = take_turns({"": captured(work)}, device, runs, seconds / 4)[""].ms
            except RuntimeError as wrong:
                torch.cuda.synchronize(device)
                found[name]["not_captured"] = str(wrong).splitlines()[0]
            torch.cuda.empty_cache()
    return found


def _work(form: Form, inputs: list[Tensor], both: bool) -> Any:
    if not both:

        def forward() -> Tensor:
            with torch.no_grad():
                return form(*inputs)

        return forward
    upstream = torch.ones_like(inputs[0] if inputs[4].dim() == 4 else inputs[0][:, 0])
    return lambda: torch.autograd.grad(form(*inputs), inputs, upstream)


def _not_running(present: dict[str, Form], inputs: list[Tensor]) -> dict[str, str]:
    """Take out, with a word, what fails on these inputs or gives another answer than the first."""
    why, wanted = {}, None
    for name, form in list(present.items()):
        try:
            with torch.no_grad():
                got = form(*inputs)
        except Exception as wrong:  # whatever a rival dies of, the others are still to be measured
            why[name] = (str(wrong).splitlines() or [type(wrong).__name__])[0]
            del present[name]
            continue
        wanted = got if wanted is None else wanted
        error = float((got - wanted).norm() / wanted.norm())
        if not error < AGREE:
            why[name] = f"its answer differs by {error:.1e}"
            del present[name]
    return why


def _against(
    shape: Shape, inputs: list[Tensor], every: bool, both: bool, limits: Roofs, row: dict[str, Any]
) -> dict[str, Any]:
    """Forward reads the inputs and writes y; backward reads the inputs and ∂y and writes the gradients."""
    given = sum(x.numel() * x.element_size() for x in inputs)
    out = inputs[0].numel() * 4 // (1 if every else shape.steps)
    moved = given + out + (2 * given + out if both else 0)
    exponentials = shape.exponentials * (2 if both else 1)
    least, bound = limits.least_seconds(moved, exponentials)
    ms = row.get("captured_ms", row["ms"])
    return {"moved": moved, "exponentials": exponentials, "bound": bound, "share_of_roof": 1e3 * least / ms}


def _plain(timing: Timing) -> dict[str, Any]:
    return asdict(timing)
