"""Floating-point operations: as torch counts them, and by hand for our own model.

Both count matrix products, a multiplication and an addition each. Neither counts exponentials and other work on
single entries; torch does not see what the state space's kernels do, and takes a sparse product for a dense one. By
hand a given graph costs its edges, also where a dense product is the faster way to the same numbers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from f2stnet.layers.driven import without_kernels
from f2stnet.layers.earlier_days import EarlierDays
from f2stnet.layers.embeddings import FutureCalendar
from f2stnet.layers.frequency_mixing import FrequencyMixing
from f2stnet.layers.graph_conv import GraphConvolution, LearnedGraphConvolution, NeighbourConvolution
from f2stnet.layers.mlp import ResidualMLP
from f2stnet.layers.spectral import SpectralInput
from f2stnet.layers.state_space import SelectiveStateSpace
from f2stnet.models.f2stnet import F2STNet


def counted(work: Callable[[], Any]) -> int:
    # Without gradients the counter trips over a parameter that is a module's own output.
    with torch.enable_grad(), without_kernels(), FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def by_hand(model: nn.Module, batch: int, steps: int, nodes: int, days: int = 0) -> dict[str, int] | None:
    """Of one forward pass, by part; None for a model that is not ours."""
    if not isinstance(model, F2STNet):
        return None
    rows, found = batch * nodes, dict[str, int]()

    def add(part: str, products: int) -> None:
        found[part] = found.get(part, 0) + 2 * products

    inside: set[nn.Module] = set()
    for layer in model.modules():
        if layer in inside:
            continue
        match layer:
            case SpectralInput():
                add("spectral input", _spectral(layer, batch * steps, nodes))
            case SelectiveStateSpace():
                add("state space", _state_space(layer, rows, steps))
            case EarlierDays():
                enter = layer.enter.in_features * layer.enter.out_features
                add("earlier days", rows * days * enter + _state_space(layer.over_days, rows, days))
            case GraphConvolution():
                edges, width = layer.propagate.weights.numel(), layer.weight.in_features
                add("given graph", batch * edges * width + rows * width**2)
            case NeighbourConvolution():
                edges, rank, width = layer.columns.numel(), layer.source.shape[1], layer.enter.in_features
                add("given graph", edges * (rank + batch * width) + 2 * rows * width**2)
            case LearnedGraphConvolution():
                (_, rank), width = layer.source.shape, layer.weight.in_features
                pairs = 2 * rows * rank * width if layer.grouped else nodes**2 * (rank + batch * width)
                add("learned graph", pairs + rows * width**2)
            case FutureCalendar():
                asked = layer.ask.out_features
                add("hours to come", rows * asked * (layer.ask.in_features + model.horizon))
            case FrequencyMixing():
                (frequencies, inner, _), width = layer.gains.shape, layer.enter.in_features
                at_nodes, at_frequencies = frequencies * (width + inner) + inner * width, inner * (width + inner)
                add("frequencies in blocks", rows * at_nodes + batch * frequencies * at_frequencies)
            case ResidualMLP():
                add("residual blocks", 2 * rows * layer.first.in_features**2)
            case nn.Linear():
                add("window and head", rows * layer.in_features * layer.out_features)
            case _:
                continue
        inside.update(layer.modules())
    return found


def _state_space(layer: SelectiveStateSpace, rows: int, steps: int) -> int:
    """Step sizes, B and C of every step."""
    return rows * steps * layer.step.out_features * 2 * (layer.rank + layer.size)


def _spectral(layer: SpectralInput, steps: int, nodes: int) -> int:
    """c = Uᵀ X; that times the first layer; the second layer times W_in; that times its input; X through W_in."""
    c, d, f, width = layer.channels, layer.embedding, layer.basis.shape[1], layer.fuse.out_features
    raw = layer.fuse.in_features - c * d
    weights = width * c * d * d + width * c * d
    return steps * nodes * (c * f + c * f * d + c * d * width + raw * width) + weights
