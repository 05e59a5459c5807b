"""What needs no training, on the same windows: a model that does no better has not earned its parts yet."""

from typing import Any

from f2stnet.calendar import DAY_KINDS
from f2stnet.data.split import Parts
from f2stnet.data.windows import Task, Windows
from f2stnet.models import Prepares, make_model, models
from f2stnet.training.evaluate import evaluate

NAMES = ("last-value", "historical-average")
LARGEST_TABLE = 2**23  # means that the historical average may hold: ever more sensors would take gigabytes


def yardsticks(windows: Windows, parts: Parts, task: Task) -> dict[str, dict[str, Any]]:
    """MAE, RMSE and MAPE over all steps of the validation and the test part, by name."""
    found = {}
    for name in NAMES:
        if name == "historical-average" and not _fits(task):
            continue
        model = make_model(name, models.find(name).config, task).to(windows.device)
        if isinstance(model, Prepares):
            model.prepare(windows, parts.train)
        found[name] = {
            part: evaluate(model, windows, getattr(parts, part)).figures() for part in ("validation", "test")
        }
    return found


def better(metrics: dict[str, Any]) -> tuple[str, float] | None:
    """The yardstick with the lowest validation MAE and that MAE, where the model's own is not lower."""
    own = metrics["validation"]["mae"]
    others = {name: figures["validation"]["mae"] for name, figures in metrics.get("yardsticks", {}).items()}
    known = {name: mae for name, mae in others.items() if mae is not None}
    if not known or own is None:
        return None
    best = min(known, key=lambda name: known[name])
    return (best, known[best]) if known[best] <= own else None


def _fits(task: Task) -> bool:
    return DAY_KINDS * task.slots_per_day * task.nodes * len(task.targets) <= LARGEST_TABLE
