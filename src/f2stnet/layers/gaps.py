"""Gaps in what was read, bridged by what was read around them.

    x_t = x_p + (t − p) / (q − p) · (x_q − x_p)        p, q: the readings of the same sensor next before and after t

At either end of the window the nearest reading stands in; a sensor that said nothing at all stays at 0, the training
mean. A window lies in the past from end to end, so nothing is read ahead. The mask goes on saying what was observed.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def bridge(values: Float[Tensor, "B T N C"], observed: Float[Tensor, "B T N C"]) -> Float[Tensor, "B T N C"]:
    steps = values.shape[1]
    t = torch.arange(steps, device=values.device)[:, None, None].expand_as(values)
    seen = observed > 0
    before = torch.where(seen, t, -1).cummax(1).values
    after = torch.where(seen, t, steps).flip(1).cummin(1).values.flip(1)
    p = torch.where(before < 0, after, before).clamp(max=steps - 1)
    q = torch.where(after == steps, before, after).clamp(min=0)
    share = (t - p).to(values.dtype) / (q - p).clamp(min=1)
    start, end = values.gather(1, p), values.gather(1, q)  # both 0 where nothing was observed
    return torch.lerp(start, end, share)
