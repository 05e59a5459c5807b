"""Configs are small frozen dataclasses next to what they configure.

Here is what all of them share: reading from and writing to TOML, `--set section.key=value`, and refusing
unknown keys and values of the wrong type by name.
"""

import dataclasses
import datetime
import json
import numbers
import re
import tomllib
import types
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from f2stnet.errors import InputError
from f2stnet.registry import did_you_mean

Config = TypeVar("Config")
NUMBERS: dict[Any, type] = {int: numbers.Integral, float: numbers.Real}


def build(default: Config, values: Mapping[str, Any], where: str) -> Config:
    """`default` with `values` put in; `where` (as 'training') names the section in messages."""
    hints = get_type_hints(type(default))
    for key in values:
        if key not in hints:
            raise InputError(f"unknown key '{where}.{key}'{did_you_mean(key, hints)}")
    checked = {key: coerce(value, hints[key], f"{where}.{key}") for key, value in values.items()}
    try:
        return dataclasses.replace(default, **checked)  # type: ignore[type-var]
    except InputError as wrong:
        raise InputError(f"{where}: {wrong}") from None


def coerce(value: Any, hint: Any, where: str) -> Any:
    """`value` as `hint` asks for it, or an InputError that names the key."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if (value is None or (isinstance(value, str) and value == "")) and type(None) in args:
            return None
        inner = [arg for arg in args if arg is not type(None)]
        return coerce(value, inner[0], where)
    if origin is Literal:
        if value not in args:
            raise InputError(f"{where} = {value!r}: expected one of {', '.join(map(str, args))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            value = [value]
        item = args[0]
        if len(args) == 2 and args[1] is not Ellipsis and len(value) != 2:
            raise InputError(f"{where} = {value!r}: expected two values, as [first, second]")
        return tuple(coerce(entry, item, where) for entry in value)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise InputError(f"{where} = {value!r}: expected a table")
        return {str(key): coerce(entry, args[1], f"{where}.{key}") for key, entry in value.items()}
    if hint in (int, float) and isinstance(value, NUMBERS[hint]) and not isinstance(value, bool):
        return hint(value)  # of numpy's numbers too
    if hint is str and isinstance(value, int | float | PurePath) and not isinstance(value, bool):
        return str(value)
    if hint is Any or (hint not in NUMBERS and isinstance(value, hint)):
        return value
    shown = (
        f"= {value!r}" if isinstance(value, str | int | float | list | tuple) else f"is of type {type(value).__name__}"
    )
    raise InputError(f"{where} {shown}: expected {getattr(hint, '__name__', hint)}")


def require(holds: bool, message: str) -> None:
    """For `__post_init__`: refuse an impossible value in one line."""
    if not holds:
        raise InputError(message)


def as_dict(config: Any) -> dict[str, Any]:
    """A config as plain values; keys that are None are left out, as TOML has no null."""
    pairs = ((field.name, getattr(config, field.name)) for field in dataclasses.fields(config))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in pairs if value is not None}


def parse_overrides(pairs: Iterable[str]) -> dict[str, dict[str, Any]]:
    """`["model.width=64"]` becomes `{"model": {"width": 64}}`; values are read as TOML, bare words as text, also in a
    list: of `["05:30", "23:30"]` a shell takes the quotes away."""
    sections: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        dotted, equals, text = pair.partition("=")
        section, dot, key = dotted.strip().partition(".")
        if not (equals and dot and section and key):
            raise InputError(f"--set {pair!r}: expected section.key=value, as in model.width=64")
        sections.setdefault(section, {})[key] = parse_value(text.strip())
    return sections


def parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        bare = re.fullmatch(r"\[([^][\"']*)\]", text)
        return [parse_value(entry.strip()) for entry in bare[1].split(",") if entry.strip()] if bare else text


def to_toml(table: Mapping[str, Any]) -> str:
    """Plain values first, then one `[section]` per nested mapping (one level, all that a config needs)."""
    lines = [f"{_key(key)} = {toml_value(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    for name, section in table.items():
        if isinstance(section, Mapping):
            lines += ["", f"[{_key(name)}]"]
            lines += [f"{_key(key)} = {toml_value(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    bare = key.replace("_", "").replace("-", "")
    return key if bare.isascii() and bare.isalnum() else _quote(key)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # bare in JSON, not in TOML


def toml_value(value: Any) -> str:
    """As `--set` takes it, too."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(float(value))  # a number of numpy's too; inf and nan are spelt the same in TOML
        case str():
            return _quote(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case list() | tuple():
            return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    raise TypeError(f"cannot write {value!r} as TOML")
