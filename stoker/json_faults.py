"""Finds what makes a value unfit for a JSON payload, and where in it that is."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from enum import Enum
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec

from stoker.errors import PayloadFault

DEEPEST = 254

_SURROGATE = re.compile("[\ud800-\udfff]")
_TIMES = (datetime, date, time)
_LEAVES = (bool, type(None), date, time, UUID, Enum)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Fault(NamedTuple):
    """What is wrong, where (`items[3].name`; empty for the payload itself) and with which value."""

    kind: PayloadFault | Literal["naive"]
    path: str
    value: Any
    detail: str = ""


def as_builtins(value: Any) -> Any:
    """Turn a dataclass, a msgspec struct or a pydantic model into dicts and lists; raises TypeError for anything else.

    Times stay objects, so that nobody writes down a naive one.
    """
    if hasattr(value, "model_dump"):
        naive = next((fault for fault in faults(value.model_dump()) if fault.kind == "naive"), None)
        if naive is not None:
            raise TypeError(f"naive time at {naive.path}")
        return value.model_dump(mode="json")
    if isinstance(value, msgspec.Struct) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return msgspec.to_builtins(value, builtin_types=_TIMES, str_keys=True, enc_hook=as_builtins)
    raise TypeError(f"{type(value).__name__} is no JSON type")


def faults(payload: Any) -> Iterator[Fault]:
    """Yield what JSON or PostgreSQL cannot hold, depth first; endless for a value that contains itself."""
    todo: list[tuple[str, Any, int]] = [("", payload, 0)]
    while todo:
        path, value, depth = todo.pop()
        if depth > DEEPEST:
            yield Fault("not_json", path[:80], value, f"nested deeper than {DEEPEST} levels")
        elif isinstance(value, dict):
            yield from (fault for key in value for fault in _key_faults(path, key))
            todo += [(_child(path, key), item, depth + 1) for key, item in reversed(value.items())]
        elif isinstance(value, list | tuple):
            todo += [(f"{path}[{i}]", item, depth + 1) for i, item in reversed(list(enumerate(value)))]
        elif isinstance(value, type):
            yield from _leaf_faults(path, value)
        elif hasattr(value, "model_dump"):
            yield from (fault for fault in faults(value.model_dump()) if fault.kind in ("naive", "not_finite"))
            todo.append((path, value.model_dump(mode="json"), depth))
        elif dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
            todo.append((path, as_builtins(value), depth))
        else:
            yield from _leaf_faults(path, value)


def _leaf_faults(path: str, value: Any) -> Iterator[Fault]:
    if isinstance(value, str):
        yield from _text_faults(path, value)
    elif isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            yield Fault("naive", path, value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Fault("not_finite", path, value)
    elif isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**64:
            yield Fault("not_json", path, value, "it is an integer of more than 64 bits; pass it as a string")
    elif not isinstance(value, _LEAVES):
        yield Fault("not_json", path, value, f"it is a {type(value).__name__}")


def _key_faults(path: str, key: Any) -> Iterator[Fault]:
    if isinstance(key, str):
        yield from _text_faults(_child(path, key), key)
    else:
        yield Fault("not_json", path, key, f"the key {key!r} is no string")


def _text_faults(path: str, text: str) -> Iterator[Fault]:
    if "\x00" in text:
        yield Fault("nul", path, text)
    if _SURROGATE.search(text):
        yield Fault("surrogate", path, text)


def _child(path: str, key: Any) -> str:
    if isinstance(key, str) and _PLAIN_NAME.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{key!r:.40}]"
