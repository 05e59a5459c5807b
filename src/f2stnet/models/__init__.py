"""The models, each registered under its name when this package is imported."""

from f2stnet.models import (
    cy2mixer,
    ddgcrn,
    f2stnet,
    lightcts,
    multispans,
    pdformer,
    pdg2seq,
    spot_mamba,
    staeformer,
    stg_mamba,
    stg_ncde,
    yardsticks,
)
from f2stnet.models.registry import Prepares, count_parameters, make_model, models

__all__ = [
    "Prepares",
    "count_parameters",
    "cy2mixer",
    "ddgcrn",
    "f2stnet",
    "lightcts",
    "make_model",
    "models",
    "multispans",
    "pdformer",
    "pdg2seq",
    "spot_mamba",
    "staeformer",
    "stg_mamba",
    "stg_ncde",
    "yardsticks",
]
