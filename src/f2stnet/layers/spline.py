"""Natural cubic splines through the steps of a window: a path where there were numbers.

Through a complete window the spline is linear in the values, so its slope at fixed times is one matrix (`slopes`).
Where values are missing, `fill` puts the spline through those that are there and reads it at the others; the spline
through the filled window is then the same one.
"""

import numpy as np
import torch
from jaxtyping import Float
from scipy.interpolate import CubicSpline
from torch import Tensor


def slopes(steps: int, times: Float[np.ndarray, "S"]) -> Float[Tensor, "S T"]:
    """The matrix that maps the values at steps 0, 1, …, T−1 to the slopes of their spline at `times`."""
    if steps == 1:
        return torch.zeros(len(times), 1)  # one value is a standing path
    spline = CubicSpline(np.arange(steps), np.eye(steps), bc_type="natural")
    return torch.from_numpy(spline(times, 1)).float()


def fill(values: Float[Tensor, "B T *X"], observed: Float[Tensor, "B T *X"]) -> Float[Tensor, "B T *X"]:
    """The spline through what was observed, at every step; level before the first and after the last of these.

    With m the second derivatives at the knots, p < i two neighbours of them, h their distance and d the slope of the
    chord between them, smoothness at p asks

    h_p m_{p−1} / 6 + (h_p + h_i) m_p / 3 + h_i m_i / 6 = d_i − d_p,

    solved by elimination, m_p = b_i − c_i m_i, on the way forward, and substitution on the way back. Which steps are
    knots differs from series to series, so each step does the work for all of them and keeps what applies.
    """
    steps = values.shape[1]
    knots, known = _with_ends(values, observed > 0)
    if steps < 3:
        return knots
    gone = torch.ones_like(knots[:, 0])  # steps since p, the last knot
    x_p, h_p, d_p, b, c = knots[:, 0], torch.ones_like(gone), *(torch.zeros_like(gone) for _ in range(3))
    inner = torch.zeros_like(gone)  # 0 while p is the first knot, whose m is 0
    found: list[tuple[Tensor, ...]] = [()]
    for t in range(1, steps):
        chord = (knots[:, t] - x_p) / gone
        pivot = (h_p + gone) / 3 - h_p * c / 6
        b_t, c_t = inner * (chord - d_p - h_p * b / 6) / pivot, inner * gone / 6 / pivot
        found.append((x_p, gone, b_t, c_t))
        here = known[:, t]
        x_p, h_p, d_p = (torch.where(here, new, old) for new, old in ((knots[:, t], x_p), (gone, h_p), (chord, d_p)))
        b, c = torch.where(here, b_t, b), torch.where(here, c_t, c)
        inner, gone = inner.masked_fill(here, 1.0), torch.where(here, 1.0, gone + 1)
    x_p, h, m_p, _ = found[-1]  # m of the last knot is 0, so m_p = b
    x_i, m_i, right = knots[:, -1], torch.zeros_like(m_p), torch.zeros_like(m_p)
    filled = [x_i]
    for t in range(steps - 2, 0, -1):
        here, right = known[:, t], right + 1
        left = h - right
        bent = m_p * right * (right**2 - h**2) / (6 * h) + m_i * left * (left**2 - h**2) / (6 * h)
        filled.append(torch.where(here, knots[:, t], (x_p * right + x_i * left) / h + bent))
        x_p_t, h_t, b_t, c_t = found[t]
        x_i, m_i, right = torch.where(here, knots[:, t], x_i), torch.where(here, m_p, m_i), right.masked_fill(here, 0.0)
        x_p, h, m_p = torch.where(here, x_p_t, x_p), torch.where(here, h_t, h), torch.where(here, b_t - c_t * m_p, m_p)
    filled.append(knots[:, 0])
    return torch.stack(filled[::-1], dim=1)


def _with_ends(values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last step as knots: with the nearest observed value, or 0 where there is none at all."""
    first = known.int().argmax(dim=1, keepdim=True)
    last = values.shape[1] - 1 - known.flip(1).int().argmax(dim=1, keepdim=True)
    start, end = values.gather(1, first), values.gather(1, last)
    level = ~known.any(dim=1, keepdim=True)
    start, end = start.masked_fill(level, 0.0), end.masked_fill(level, 0.0)
    if values.shape[1] == 1:
        return start, torch.ones_like(known)
    ends = torch.ones_like(known[:, :1])
    return torch.cat([start, values[:, 1:-1], end], dim=1), torch.cat([ends, known[:, 1:-1], ends], dim=1)
