"""Starting from the weights of an earlier run, whose sensors need not be the same."""

import torch
from torch import nn

from f2stnet.errors import InputError
from f2stnet.layers.embeddings import declared
from f2stnet.registry import few
from f2stnet.training.run import Run


@torch.no_grad()
def start_weights(model: nn.Module, earlier: Run, nodes: tuple[str, ...]) -> list[str]:
    """Copy what fits. Rows that belong to nodes are matched by name; returns what was done, a line each.

    A layer names the parameters whose first axis is the nodes in `node_rows`. Where it is the graph frequencies
    (`frequency_rows`), of which a graph of few nodes has fewer, those that both graphs have are copied and the others
    start at zero, so that they add nothing to what was learned without them. Buffers (the Fourier basis, the graph
    operator) belong to the new graph and stay.
    """
    old_place = {name: place for place, name in enumerate(earlier.template.nodes)}
    kept = [(place, old_place[name]) for place, name in enumerate(nodes) if name in old_place]
    new = [name for name in nodes if name not in old_place]
    gone = sorted(set(old_place) - set(nodes))
    source = dict(earlier.model.named_parameters())
    per_node, per_frequency = declared(model, "node_rows"), declared(model, "frequency_rows")
    fresh, sizes = [], {name: parameter.numel() for name, parameter in model.named_parameters()}
    for name, parameter in model.named_parameters():
        old = source.get(name)
        if old is None or old.shape[1:] != parameter.shape[1:]:
            fresh.append(name)
        elif name in per_node:
            here, there = (torch.tensor([pair[side] for pair in kept], dtype=torch.long) for side in (0, 1))
            parameter[here.to(parameter.device)] = old[there.to(old.device)].to(parameter.device)
        elif name in per_frequency:
            both = min(len(old), len(parameter))
            parameter.zero_()
            parameter[:both] = old[:both].to(parameter.device)
        elif old.shape == parameter.shape:
            parameter.copy_(old)
        else:
            fresh.append(name)
    missing = sum(sizes[name] for name in fresh)
    if missing > sum(sizes.values()) / 2:
        raise InputError(
            f"{earlier.folder}: a run of {earlier.config.model} that fits {len(sizes) - len(fresh)} of the "
            f"{len(sizes)} arrays of this model; expected the same model with the same settings"
        )
    notes = [f"started from {earlier.folder}: {len(kept)} sensors matched by name"]
    if new:
        notes.append(f"new sensors, fresh embeddings: {few(new)}")
    if gone:
        notes.append(f"sensors that are gone were dropped: {few(gone)}")
    if fresh:
        notes.append(f"parameters that do not fit and start fresh: {few(fresh)}")
    return notes
