"""Training, evaluation and the run folder."""

from f2stnet.training.fit import fit
from f2stnet.training.run import Run
from f2stnet.training.settings import RunConfig, TrainingConfig, configure

__all__ = ["Run", "RunConfig", "TrainingConfig", "configure", "fit"]
