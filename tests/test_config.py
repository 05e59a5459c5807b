"""Configs: TOML in and out, and refusals that name the key."""

import math
import tomllib
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet.config import as_dict, build, parse_overrides, require, to_toml
from f2stnet.errors import InputError


@dataclass(frozen=True)
class Plain:
    width: int = 64
    rate: float = 0.1
    name: str = "x"
    fast: bool = False
    mode: Literal["mae", "mse"] = "mae"
    parts: tuple[float, ...] = (0.6, 0.4)
    hours: tuple[str, str] | None = None
    day: date | None = None
    limit: int | None = 5

    def __post_init__(self) -> None:
        require(self.width > 0, f"width = {self.width}: expected a positive number")


def test_values_are_put_in_and_the_rest_keeps_its_default():
    built = build(Plain(), {"width": 8, "rate": 1, "parts": [1], "hours": ["05:30", "23:30"]}, "model")
    assert built == Plain(width=8, rate=1.0, parts=(1.0,), hours=("05:30", "23:30"))
    assert isinstance(built.rate, float)
    assert isinstance(built.parts[0], float)


def test_a_key_that_may_be_absent_is_emptied_by_an_empty_text():
    assert build(Plain(), {"limit": ""}, "model").limit is None


def test_an_unknown_key_is_named_with_a_suggestion():
    with pytest.raises(InputError, match=r"^unknown key 'model\.widht'; did you mean 'width'\?$"):
        build(Plain(), {"widht": 8}, "model")


def test_an_unknown_key_like_no_other_is_answered_with_the_list():
    with pytest.raises(InputError, match=r"unknown key 'model\.zzz'; known: day, fast, hours, limit, mode"):
        build(Plain(), {"zzz": 8}, "model")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("width", "wide", "expected int"),
        ("width", 1.5, "expected int"),
        ("width", True, "expected int"),
        ("rate", "fast", "expected float"),
        ("rate", True, "expected float"),
        ("fast", 1, "expected bool"),
        ("name", [1], "expected str"),
        ("name", True, "expected str"),
        ("mode", "mape", "expected one of mae, mse"),
        ("parts", ["a"], "expected float"),
        ("hours", ["05:30"], "expected two values, as [first, second]"),
        ("day", "tomorrow", "expected date"),
        ("limit", 2.5, "expected int"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_key(key, value, expected):
    with pytest.raises(InputError) as refused:
        build(Plain(), {key: value}, "model")
    message = str(refused.value)
    assert message.startswith(f"model.{key} = ")
    assert message.endswith(expected)
    assert "\n" not in message


def test_an_impossible_value_is_named_with_its_section():
    with pytest.raises(InputError, match=r"^model: width = 0: expected a positive number$"):
        build(Plain(), {"width": 0}, "model")


def test_a_config_reads_back_from_its_own_toml():
    config = Plain(3, 1e-7, 'a "quoted"\nname', hours=("05:30", "23:30"), day=date(2024, 2, 29), limit=None)
    written = tomllib.loads(to_toml({"model": as_dict(config)}))["model"]
    assert build(Plain(limit=None), written, "model") == config


keys = st.text(min_size=0, max_size=8)
scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.dates()
    | st.times().map(lambda t: t.replace(fold=0))
    | st.datetimes().map(lambda t: t.replace(fold=0))
)
values = scalars | st.lists(scalars, max_size=4) | st.lists(st.lists(scalars, max_size=2), max_size=2)
tables = st.dictionaries(keys, values | st.dictionaries(keys, values, max_size=3), max_size=5)


@given(tables)
def test_what_is_written_as_toml_reads_back(table):
    assert tomllib.loads(to_toml(table)) == table


def test_nan_and_infinity_read_back():
    back = tomllib.loads(to_toml({"a": math.nan, "b": -math.inf}))
    assert math.isnan(back["a"])
    assert back["b"] == -math.inf


def test_numbers_of_numpy_are_written_as_numbers():
    assert tomllib.loads(to_toml({"rate": np.float64(0.25)})) == {"rate": 0.25}


def test_what_toml_has_no_word_for_is_a_mistake_of_ours():
    with pytest.raises(TypeError, match="cannot write"):
        to_toml({"a": object()})


def test_overrides_are_read_as_toml_and_bare_words_as_text():
    pairs = ["model.width=64", "model.rate = 1e-3", "data.name=pems", "data.hours=['05:30', '23:30']"]
    assert parse_overrides([*pairs, "a.b=true", "a.c="]) == {
        "model": {"width": 64, "rate": 0.001},
        "data": {"name": "pems", "hours": ["05:30", "23:30"]},
        "a": {"b": True, "c": ""},
    }


def test_the_last_override_of_a_key_counts_and_values_may_hold_an_equals_sign():
    assert parse_overrides(["a.b=1", "a.b=x=y"]) == {"a": {"b": "x=y"}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[05:30,23:30]", ["05:30", "23:30"]),
        ("[PM2.5, NO2]", ["PM2.5", "NO2"]),
        ("[-]", ["-"]),
        ("[-1, -, 999]", [-1, "-", 999]),
        ("[a,]", ["a"]),
        ('["a, b"]', ["a, b"]),
        ('["a]', '["a]'),
        ("[a", "[a"),
    ],
)
def test_a_list_whose_quotes_a_shell_has_taken_is_a_list(text: str, value: object) -> None:
    assert parse_overrides([f"a.b={text}"]) == {"a": {"b": value}}


def test_overrides_know_dates_and_times():
    read = parse_overrides(["a.day=2024-02-29", "a.at=2024-02-29T05:30:00", "a.clock=05:30:00"])["a"]
    assert read == {"day": date(2024, 2, 29), "at": datetime(2024, 2, 29, 5, 30), "clock": time(5, 30)}


@pytest.mark.parametrize("pair", ["width=64", "model.width", "=64", ".width=64", "model.=64", ""])
def test_an_override_of_another_form_is_refused(pair):
    with pytest.raises(InputError, match=r"expected section\.key=value"):
        parse_overrides([pair])
