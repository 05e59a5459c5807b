"""Which answers of a round can be used. One that cannot is left out and named; the others' round goes on."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Message, MetricRecord
from torch import Tensor

from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.records import from_record

LARGEST_LOSS = 1e6  # in training deviations; nothing that forecasts at all comes near
LACKS = "metric {!r} is missing, or not a single number"


@dataclass(frozen=True)
class Answer:
    """One usable reply of a training round."""

    client: int
    arrays: Arrays
    beside: Arrays
    metrics: dict[str, float]
    lists: dict[str, list[float]] = field(default_factory=dict)  # metrics of several numbers


def sift(
    replies: Iterable[Message],
    asked: Mapping[int, int],
    like: Arrays,
    arrays_key: str = "arrays",
    count_key: str = "num-examples",
    loss_key: str = "loss",
    wants_arrays: bool = True,
    wants_initial_loss: bool = False,
    largest_loss: float = LARGEST_LOSS,
    scale_key: str = "",
    shown: tuple[str, ...] = (),
) -> tuple[list[Answer], dict[int, str]]:
    """The usable answers by client, and why each of the others was left out. `asked`: node id → client; `shown` are
    losses that are not needed, but must be sound where they are sent."""
    replies = list(replies)
    answers, refused = [], dict.fromkeys(asked.values(), silence(replies, asked))
    losses = (loss_key, "initial-loss") if wants_initial_loss else (loss_key,)
    positive = (count_key, scale_key) if scale_key else (count_key,)
    for reply in replies:
        client = asked.get(reply.metadata.src_node_id)
        if client is None:
            continue
        try:
            if reply.has_error():
                raise ValueError(f"its client app failed: {_last_line(str(reply.error.reason))}")
            metrics, lists = _numbers(reply.content)
            _require(metrics, positive, losses, shown, largest_loss)
            arrays, beside = _read(reply, like if wants_arrays else {}, arrays_key)
            answers.append(Answer(client, arrays, beside, metrics, lists))
            refused.pop(client, None)
        except (ValueError, KeyError, TypeError) as wrong:
            refused[client] = str(wrong).strip("'\"")
    return sorted(answers, key=lambda answer: answer.client), refused


def silence(replies: Iterable[Message], asked: Collection[int]) -> str:
    """Why who did not answer did not: a SuperLink answers in its own name for a client that is gone."""
    told = {
        _last_line(str(one.error.reason))
        for one in replies
        if one.metadata.src_node_id not in asked and one.has_error()
    }
    return "; ".join(sorted(told)) or "no answer in time"


def _last_line(reason: str) -> str:
    """Of a traceback, as Ray sends it with its colours, the line that says what went wrong."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", reason).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def _require(
    metrics: Mapping[str, float],
    positive: tuple[str, ...],
    losses: tuple[str, ...],
    shown: tuple[str, ...],
    most: float,
) -> None:
    for key in (*positive, *losses):
        if key not in metrics:
            raise ValueError(LACKS.format(key))
    for key in positive:
        if not 0 < metrics[key] < math.inf:  # refuses NaN as well
            raise ValueError(f"{key} = {metrics[key]}: expected a positive number")
    for key in (*losses, *shown):
        if key in metrics and not (0 <= metrics[key] <= most and metrics[key] < math.inf):
            expected = f"0 … {most:g}" if most < math.inf else "a finite number of 0 or more"
            raise ValueError(f"{key} = {metrics[key]}: expected {expected}")


def _read(reply: Message, like: Arrays, arrays_key: str) -> tuple[Arrays, Arrays]:
    """The model's arrays, and what was sent beside them."""
    records = dict(reply.content.array_records)
    beside = from_record(records.pop("beside")) if "beside" in records else {}
    arrays: Arrays = {}
    if like:
        if arrays_key not in records and len(records) != 1:
            raise ValueError(f"record {arrays_key!r} is missing")
        arrays = from_record(records[arrays_key] if arrays_key in records else next(iter(records.values())))
        if set(arrays) != set(like):
            strange = sorted(set(arrays) ^ set(like))[0]
            raise ValueError(f"array {strange!r} is {'missing' if strange in like else 'not one of the model'}")
    for name, array in (arrays | beside).items():
        if name in like and array.shape != like[name].shape:
            raise ValueError(f"array {name!r} has shape {tuple(array.shape)}, expected {tuple(like[name].shape)}")
        both_floating = name in like and array.is_floating_point() and like[name].is_floating_point()
        if name in like and array.dtype != like[name].dtype and not both_floating:  # numpy's float64 is welcome
            raise ValueError(f"array {name!r} is {_kind(array)}, expected {_kind(like[name])}")
        if name not in like and not array.is_floating_point():  # no model has it; what it is good for is a mean
            raise ValueError(f"array {name!r} is {_kind(array)}, expected a floating point type")
        # One sum finds any NaN or Inf, far cheaper than a mask; a sum that merely overflows is looked at closely.
        values = array.numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            total = values.sum()
        if not np.isfinite(total) and not _as_it_was(values, like.get(name)):
            raise ValueError(f"array {name!r} holds NaN or infinite numbers")
    return arrays, beside


def _as_it_was(values: np.ndarray, before: Tensor | None) -> bool:
    """Whether nothing is infinite but what was so when it was sent, as −inf in a mask."""
    odd = ~np.isfinite(values)
    return not odd.any() or (before is not None and np.array_equal(values[odd], before.numpy()[odd]))


def _kind(array: Tensor) -> str:
    return str(array.dtype).removeprefix("torch.")


def _numbers(content: Mapping[str, object]) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Its metrics: single numbers, and lists of them."""
    records = [record for record in content.values() if isinstance(record, MetricRecord)]
    if len(records) != 1:
        raise ValueError(f"{len(records)} metric records: expected one")
    single = {key: float(value) for key, value in records[0].items() if isinstance(value, int | float)}
    return single, {key: list(map(float, value)) for key, value in records[0].items() if isinstance(value, list)}
