"""FedSage+ (Zhang et al., NeurIPS 2021), carried over to forecasting: cut edges are mended by a neighbour generator.

Under partition `nodes` a client does not see the sensors beyond its region. It hides half of its own, learns to
generate the windows of those from their neighbours', and fills what is missing at the cut edges with what it
generates, in training and in evaluation:

    a · smooth L1 of the count + b · (greedy MSE to the hidden + greedy MSE to the others' generator) + c · task loss

`neighbour_generator` has the network and its losses, `generator_workshop` its training. Where this differs from the
paper, and why:

- The topology is shared here, so how many neighbours are missing, and where, is known. The count is still learned,
  as a task beside; the generated windows are placed by the topology.
- In the paper gradients of a generator's misfit travel between clients. Here generators themselves do: the server
  averages them by windows, a client starts from the average, and at its cut edges it is held to what the average
  generates there, which has learned from everybody's hidden neighbours. Before the first exchange there is no such
  term. No value leaves a client.
- A window is generated as the sensor's own plus a difference, without noise: a forecast wants the expected
  neighbour, not a likely one.
- The generator trains first, on a part of the windows, with the model it was sent held fixed, and is then held fixed
  itself while the model trains. The task loss reaches it through that model; the two are not trained in one step.
- The half that is hidden is drawn anew in each round.

A client scores with the generator that it trained last, or with the average if it never did.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from f2stnet.data.windows import Inputs
from f2stnet.federated.aggregate import Arrays, combine
from f2stnet.federated.generator_workshop import ARRAYS, SELF, FedSageConfig, Workshop
from f2stnet.federated.methods.parts import Objective, Part, Sent, methods
from f2stnet.federated.neighbour_generator import SHAPES
from f2stnet.training.precision import working_precision

if TYPE_CHECKING:
    from f2stnet.federated.local_training import Local


class Mending(Objective):
    """One workshop at a time: the generator and what it is trained with lie where the `Local` of this turn does."""

    def __init__(self, config: FedSageConfig) -> None:
        self.config = config
        self.shop: Workshop | None = None

    def begin(self, local: "Local") -> None:
        shop = self._shop(local)
        shop.look_around()
        shop.take(_known(local.received, local.kept) or {}, moments=local.kept)
        shop.hide()
        with torch.enable_grad(), working_precision(local.config.precision, local.device):
            shop.train()
        local.kept |= shop.memory()

    def mend(self, local: "Local", inputs: Inputs) -> Inputs:
        shop = self._shop(local)
        if not shop.is_ready():  # scored before its round began
            self.before_evaluation(local)
        with torch.no_grad():
            return shop.mend(inputs)

    def end(self, local: "Local") -> Arrays:
        return {name: local.kept[name] for name in ARRAYS}

    def before_evaluation(self, local: "Local") -> None:
        shop = self._shop(local)
        shop.look_around()
        known = _known(local.kept, local.received)
        if known:
            shop.take(known)
        else:  # no generator yet: better nothing than noise
            shop.view.border.zero_()

    def _shop(self, local: "Local") -> Workshop:
        if self.shop is None or self.shop.local is not local:
            self.shop = Workshop(self.config, local)
            local.forget_recordings()
        return self.shop


def _known(*places: Arrays) -> Arrays | None:
    """The first of these that has a generator."""
    return next((arrays for arrays in places if ARRAYS[0] in arrays), None)


class GeneratorMean:
    """The server's half: the mean of the clients' generators, weighted by their windows."""

    def combine(self, t: int, replies: Mapping[int, Arrays], examples: Mapping[int, float]) -> Arrays:
        total = sum(examples[client] for client in replies)
        own = {client: {name: reply[name] for name in ARRAYS} for client, reply in replies.items()}
        shares = [(client, examples[client] / total, arrays) for client, arrays in own.items()]
        return combine(shares[0][2], shares)


@methods.register("fedsage", FedSageConfig(), "FedSage+: a neighbour generator mends cut edges (partition nodes only)")
def fedsage(config: FedSageConfig) -> Part:
    sends = tuple(Sent(SELF + name, shape, "weights of the neighbour generator") for name, shape in SHAPES.items())
    return Part(objective=Mending(config), exchange=GeneratorMean(), sends=sends, only_under="nodes")
