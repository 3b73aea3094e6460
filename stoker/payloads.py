"""JSON in and out: limits, typed payloads, and text made safe for PostgreSQL."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import date, datetime, time
from types import TracebackType
from typing import Any

import orjson
from msgspec import Struct, inspect, json

from stoker.errors import Aborted, NaiveDatetime, PayloadInvalid, StokerError
from stoker.json_faults import as_builtins, faults

MAX_PAYLOAD = 1024 * 1024
MAX_RESULT = 64 * 1024
MAX_MESSAGE = 8 * 1024
MAX_TRACEBACK = 16 * 1024

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_RESULT_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_NON_STR_KEYS
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_GAP = "\n…\n".encode()
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_OBJECT_TYPES = (
    inspect.StructType,
    inspect.DataclassType,
    inspect.TypedDictType,
    inspect.DictType,
    inspect.UnionType,
)

Decode = Callable[[str], Any]


def encode(payload: Any, *, name: str, limit: int = MAX_PAYLOAD) -> str:
    """Write a payload as the text of a JSON object.

    Takes a dict with string keys, a dataclass, a msgspec struct or a pydantic model. Aware times become ISO 8601.
    Raises PayloadInvalid, with the path of the culprit where there is one, or NaiveDatetime.
    """
    try:
        text = orjson.dumps(payload, default=_aware_json, option=_OPTIONS)
    except (TypeError, RecursionError) as error:
        _refuse_faults(payload, name)
        raise PayloadInvalid(name=name, fault="not_json", detail=str(error)) from error
    if not text.startswith(b"{"):
        raise PayloadInvalid(name=name, fault="not_object", detail=f"it is a {type(payload).__name__}")
    if len(text) > limit:
        raise PayloadInvalid(name=name, fault="too_large", size=len(text), limit=limit)
    # orjson writes NaN as null and NUL as an escape: without these there is nothing to look for.
    if b"null" in text or b"\\u0000" in text:
        _refuse_faults(payload, name)
    return text.decode()


def decoder(kind: Any, *, name: str) -> Decode:
    """Return the function that reads payload text into the type a handler declares.

    Pydantic models come by `model_validate_json`, everything else by msgspec, which raises TypeError here for a type
    it cannot build. Whole numbers of any size are exact. The returned function raises PayloadInvalid if a payload does
    not fit.
    """
    plain = kind in (None, Any, dict, dict[str, Any], object)
    read: Decode = json.decode if plain else getattr(kind, "model_validate_json", None) or _object_decoder(kind)

    def decode(text: str) -> Any:
        try:
            return read(text)
        except Exception as error:
            raise PayloadInvalid(name=name, fault="unfit", detail=_message(error)) from error

    return decode


def encode_result(value: Any, *, limit: int = MAX_RESULT) -> tuple[str | None, str | None]:
    """Write a return value as JSON text: (text, problem).

    Never raises: text that PostgreSQL cannot hold is replaced; what is too large or no JSON is not stored, and named.
    """
    if value is None:
        return None, None
    try:
        text = _dump_result(value)
    except Exception as error:  # noqa: BLE001  (whatever a foreign object does while it is read, the body has returned)
        return None, f"it cannot be written as JSON: {safe_text(_message(error), 200)}"
    if len(text) > limit:
        return None, f"it has {len(text):,} bytes; the limit is {limit:,}"
    return text.decode(), None


def safe_text(text: str, limit: int) -> str:
    """Replace what PostgreSQL cannot store and cut the middle out of what is longer than `limit` bytes."""
    head = _storable(text[:limit])
    if len(text) <= limit and len(head) <= limit:
        return head.decode()
    tail = _storable(text[-limit:])
    half = max(0, limit - len(_GAP)) // 2
    return (head[:half] + _GAP + tail[len(tail) - half :]).decode(errors="ignore")


def error_record(error: BaseException) -> dict[str, Any]:
    """Describe an exception for the database: type, message, traceback, and the code of a coded one. Never raises."""
    record: dict[str, Any] = {
        "type": safe_text(_type_name(error), 200),
        "message": safe_text(_message(error), MAX_MESSAGE),
        "traceback": safe_text(_traceback(error), MAX_TRACEBACK),
    }
    if isinstance(error, StokerError | Aborted):
        record["code"] = error.code
    return record


def _object_decoder(kind: Any) -> Decode:
    made = inspect.type_info(kind)
    if not isinstance(made, _OBJECT_TYPES):
        raise TypeError("a payload is a JSON object: declare a dict, a dataclass, a msgspec or pydantic type")
    return json.Decoder(kind).decode


def _aware_json(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise TypeError("a time without a time zone")
        return value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    return as_builtins(value)


def _refuse_faults(payload: Any, name: str) -> None:
    fault = next(faults(payload), None)
    if fault is None:
        return
    if fault.kind == "naive":
        raise NaiveDatetime(argument=f"{fault.path or 'The value'} in the payload for job {name!r}", value=fault.value)
    detail = " ".join(filter(None, (f"at {fault.path}" if fault.path else "", fault.detail)))
    raise PayloadInvalid(name=name, fault=fault.kind, detail=detail)


def _dump_result(value: Any) -> bytes:
    try:
        text = orjson.dumps(value, default=as_builtins, option=_RESULT_OPTIONS)
    except TypeError:
        # Lone surrogates, perhaps; whatever else it is fails again.
        text = orjson.dumps(_cleaned(value), default=as_builtins, option=_RESULT_OPTIONS)
    return orjson.dumps(_cleaned(orjson.loads(text))) if b"\\u0000" in text else text


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub(_REPLACEMENT, value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    if isinstance(value, Struct) or is_dataclass(value):
        return _cleaned(as_builtins(value))
    return value


def _storable(text: str) -> bytes:
    return _UNSTORABLE.sub(_REPLACEMENT, text).encode()


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001  (whatever a foreign __str__ does, the failure gets recorded)
        return f"<its message cannot be read: {type(broken).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, _without_our_frames(error)))
    except BaseException as broken:  # noqa: BLE001  (as above)
        return f"<its traceback cannot be read: {type(broken).__name__}>"


def _without_our_frames(error: BaseException) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") == "stoker.body":
        trace = trace.tb_next
    return trace or error.__traceback__
