"""FedOpt (Reddi et al., ICLR 2021): the mean of the clients' moves is a gradient for an optimiser on the server."""

from f2stnet.federated.aggregate import MomentOptimiser, OptimiserConfig
from f2stnet.federated.methods.parts import Part, methods


@methods.register(
    "fedopt",
    OptimiserConfig(optimiser="adam", rate=0.03),  # published: .1, which diverges here
    "FedOpt: Adam, Yogi, Adagrad or momentum on the server",
)
def fedopt(config: OptimiserConfig) -> Part:
    return Part(optimiser=MomentOptimiser(config))
