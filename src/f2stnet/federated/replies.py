"""Which answers of a round can be used. One that cannot is left out and named; the others' round goes on."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import Message, MetricRecord

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
) -> tuple[list[Answer], dict[int, str]]:
    """The usable answers by client, and why each of the others was left out. `asked`: node id → client."""
    answers, refused = [], {client: "no answer in time" for client in asked.values()}
    for reply in replies:
        client = asked.get(reply.metadata.src_node_id)
        if client is None:
            continue
        try:
            if reply.has_error():
                raise ValueError(f"its client app failed: {reply.error.reason}")
            answers.append(_read(client, reply, like if wants_arrays else {}, arrays_key, count_key, loss_key))
            refused.pop(client, None)
        except (ValueError, KeyError, TypeError) as wrong:
            refused[client] = str(wrong).strip("'\"")
    return sorted(answers, key=lambda answer: answer.client), refused


def _read(client: int, reply: Message, like: Arrays, arrays_key: str, count_key: str, loss_key: str) -> Answer:
    content = reply.content
    metrics = _scalars(content)
    for key in (count_key, loss_key):
        if key not in metrics:
            raise ValueError(f"metric {key!r} is missing")
    if not math.isfinite(metrics[count_key]) or metrics[count_key] <= 0:
        raise ValueError(f"{count_key} = {metrics[count_key]}: expected a positive number")
    for key in [key for key in metrics if key.endswith(loss_key)]:
        if not 0 <= metrics[key] <= LARGEST_LOSS:  # refuses NaN as well
            raise ValueError(f"{key} = {metrics[key]}: expected 0 … {LARGEST_LOSS:g}")
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
        # One sum finds any NaN or Inf, far cheaper than a mask; a sum that merely overflows is looked at closely.
        values = array.numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            total = values.sum()
        if not np.isfinite(total) and not np.isfinite(values).all():
            raise ValueError(f"array {name!r} holds NaN or infinite numbers")
    return Answer(client, arrays, beside, metrics)


def _scalars(content: Mapping[str, object]) -> dict[str, float]:
    records = [record for record in content.values() if isinstance(record, MetricRecord)]
    if len(records) != 1:
        raise ValueError(f"{len(records)} metric records: expected one")
    return {key: float(value) for key, value in records[0].items() if isinstance(value, int | float)}
