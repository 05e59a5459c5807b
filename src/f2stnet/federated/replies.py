"""Which answers of a round can be used. One that cannot is left out and named; the others' round goes on."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import Message, MetricRecord
from torch import Tensor

from f2stnet.federated.aggregate import Arrays
from f2stnet.federated.records import from_record

LARGEST_LOSS = 1e6  # in training deviations; nothing that forecasts at all comes near


@dataclass(frozen=True)
class Answer:
    """One usable reply of a training round."""

    client: int
    arrays: Arrays
    beside: Arrays
    metrics: dict[str, float]


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
) -> tuple[list[Answer], dict[int, str]]:
    """The usable answers by client, and why each of the others was left out. `asked`: node id → client."""
    replies = list(replies)
    answers, refused = [], dict.fromkeys(asked.values(), silence(replies, asked))
    losses = (loss_key, "initial-loss") if wants_initial_loss else (loss_key,)
    for reply in replies:
        client = asked.get(reply.metadata.src_node_id)
        if client is None:
            continue
        try:
            if reply.has_error():
                raise ValueError(f"its client app failed: {reply.error.reason}")
            metrics = _metrics(reply, count_key, losses, largest_loss)
            answers.append(_read(client, reply, like if wants_arrays else {}, arrays_key, metrics))
            refused.pop(client, None)
        except (ValueError, KeyError, TypeError) as wrong:
            refused[client] = str(wrong).strip("'\"")
    return sorted(answers, key=lambda answer: answer.client), refused


def silence(replies: Iterable[Message], asked: Collection[int]) -> str:
    """Why who did not answer did not: a SuperLink answers in its own name for a client that is gone."""
    told = {str(one.error.reason) for one in replies if one.metadata.src_node_id not in asked and one.has_error()}
    return "; ".join(sorted(told)) or "no answer in time"


def _metrics(reply: Message, count_key: str, losses: tuple[str, ...], largest: float) -> dict[str, float]:
    metrics = _scalars(reply.content)
    for key in (count_key, *losses):
        if key not in metrics:
            raise ValueError(f"metric {key!r} is missing, or not a single number")
    if not math.isfinite(metrics[count_key]) or metrics[count_key] <= 0:
        raise ValueError(f"{count_key} = {metrics[count_key]}: expected a positive number")
    for key in (*losses, "initial-loss", "train-loss"):  # those that are used or shown
        if key in metrics and not 0 <= metrics[key] <= largest:  # refuses NaN as well
            raise ValueError(f"{key} = {metrics[key]}: expected 0 … {largest:g}")
    return metrics


def _read(client: int, reply: Message, like: Arrays, arrays_key: str, metrics: dict[str, float]) -> Answer:
    content = reply.content
    arrays: Arrays = {}
    if like:
        if arrays_key not in content.array_records:
            raise ValueError(f"record {arrays_key!r} is missing")
        arrays = from_record(content.array_records[arrays_key])
        if set(arrays) != set(like):
            strange = sorted(set(arrays) ^ set(like))[0]
            raise ValueError(f"array {strange!r} is {'missing' if strange in like else 'not one of the model'}")
    beside = from_record(content.array_records["beside"]) if "beside" in content else {}
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
        if not np.isfinite(total) and not np.isfinite(values).all():
            raise ValueError(f"array {name!r} holds NaN or infinite numbers")
    return Answer(client, arrays, beside, metrics)


def _kind(array: Tensor) -> str:
    return str(array.dtype).removeprefix("torch.")


def _scalars(content: Mapping[str, object]) -> dict[str, float]:
    records = [record for record in content.values() if isinstance(record, MetricRecord)]
    if len(records) != 1:
        raise ValueError(f"{len(records)} metric records: expected one")
    return {key: float(value) for key, value in records[0].items() if isinstance(value, int | float)}
