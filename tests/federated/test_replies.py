import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from f2stnet.federated.aggregate import combine
from f2stnet.federated.engines.in_process import InProcessGrid
from f2stnet.federated.records import from_record, to_record
from f2stnet.federated.replies import sift

LIKE = {"w": torch.zeros(2, 3), "b": torch.zeros(3)}
GOOD = {"num-examples": 10, "loss": 0.5}


def reply(arrays: dict[str, np.ndarray] | None = None, **metrics: float) -> Message:
    InProcessGrid(None, 1)  # type: ignore[arg-type]  # gives messages an identity
    asked = Message(RecordDict({"config": ConfigRecord()}), dst_node_id=7, message_type="train")
    sent = {"w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)} if arrays is None else arrays
    record = ArrayRecord({name: Array(array) for name, array in sent.items()})
    return Message(RecordDict({"arrays": record, "metrics": MetricRecord(GOOD | metrics)}), reply_to=asked)


def test_a_good_answer_is_read_whole() -> None:
    (answer,), refused = sift([reply()], {7: 3}, LIKE)
    assert refused == {}
    assert answer.client == 3
    assert torch.equal(answer.arrays["w"], torch.ones(2, 3))
    assert answer.metrics == {"num-examples": 10.0, "loss": 0.5}


W = np.ones((2, 3), np.float32)
B = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (reply({"w": np.where(W > 0, np.nan, W), "b": B}), "'w' holds NaN"),
        (reply({"w": W, "b": np.array([1, np.inf, -np.inf], np.float32)}), "'b' holds NaN or infinite"),
        (reply({"w": W.T.copy(), "b": B}), r"shape \(3, 2\), expected \(2, 3\)"),
        (reply({"w": W > 0, "b": B}), "'w' is bool, expected float32"),
        (reply({"w": W, "b": B.astype(np.complex64)}), "'b' is complex64, expected float32"),
        (reply({"w": W, "b": B.astype(np.int64)}), "'b' is int64, expected float32"),
        (reply({"w": W, "b": B.astype("U1")}), "can't convert"),
        (reply({"w": W}), "'b' is missing"),
        (reply({"w": W, "b": B, "x": B}), "'x' is not one of the model"),
        (reply(**{"num-examples": -4}), "num-examples = -4"),
        (reply(**{"num-examples": 0}), "num-examples = 0"),
        (reply(loss=1e30), r"loss = 1e\+30"),
        (reply(loss=math.nan), "loss = nan"),
        (reply(loss=-1.0), "loss = -1"),
        (reply(loss=math.inf), "loss = inf"),
    ],
)
def test_an_unusable_answer_is_left_out_and_says_why(bad: Message, why: str) -> None:
    answers, refused = sift([bad], {7: 3}, LIKE)
    assert answers == []
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(refused[3])


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_another_precision_is_welcome(kind: type) -> None:
    """Whoever computes with numpy returns float64."""
    answers, refused = sift([reply({"w": W.astype(kind), "b": B.astype(kind)})], {7: 3}, LIKE)
    assert refused == {}
    combined = combine(LIKE, [(3, 1.0, answers[0].arrays)])
    assert all(torch.equal(combined[name], torch.as_tensor(sent)) for name, sent in (("w", W), ("b", B)))


@pytest.mark.parametrize("kind", [np.bool_, np.complex64, np.int64])
def test_what_is_sent_beside_the_weights_holds_plain_numbers(kind: type) -> None:
    """No model says what it should be, but whoever combines it computes means of it."""
    bad = reply()
    bad.content["beside"] = ArrayRecord({"moon.mean": Array(np.ones(2, kind))})
    answers, refused = sift([bad], {7: 3}, LIKE)
    assert answers == []
    assert refused == {3: f"array 'moon.mean' is {np.dtype(kind)}, expected a floating point type"}


def test_errors_and_silence_are_told_apart() -> None:
    asked = Message(RecordDict({"config": ConfigRecord()}), dst_node_id=7, message_type="train")
    failed = Message(Error(2, "ValueError: no"), reply_to=asked)
    answers, refused = sift([failed], {7: 0, 8: 1}, LIKE)
    assert answers == []
    assert refused == {0: "its client app failed: ValueError: no", 1: "no answer in time"}


def test_an_answer_of_nobody_who_was_asked_does_not_count() -> None:
    assert sift([reply()], {9: 0}, LIKE) == ([], {0: "no answer in time"})


def test_arrays_survive_the_message_bit_for_bit_without_a_copy() -> None:
    sent = {
        "a": torch.randn(3, 4, 5),
        "empty": torch.zeros(0, 2),
        "scalar": torch.tensor(1.5),
        "t": torch.randn(4, 3).T,
    }
    record = to_record(sent)
    found = from_record(record)
    assert all(torch.equal(found[name], sent[name]) for name in sent)
    again = from_record(record)
    assert found["a"].data_ptr() == again["a"].data_ptr()  # both look into the message's own bytes


def test_objects_are_not_read_from_arrays() -> None:
    array = Array(np.ones(2))
    array.data = array.data.replace(b"<f8", b"|O8")
    with pytest.raises(ValueError, match="Python objects"):
        from_record(ArrayRecord({"x": array}))


def test_reading_a_record_warns_of_nothing_in_a_fresh_process() -> None:
    code = (
        "import warnings, torch; from f2stnet.federated.records import from_record, to_record\n"
        "warnings.simplefilter('error'); from_record(to_record({'a': torch.ones(2)}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
