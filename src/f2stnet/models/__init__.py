"""The models, each registered under its name when this package is imported."""

from f2stnet.models import f2stnet, yardsticks
from f2stnet.models.registry import Prepares, count_parameters, make_model, models

__all__ = ["Prepares", "count_parameters", "f2stnet", "make_model", "models", "yardsticks"]
