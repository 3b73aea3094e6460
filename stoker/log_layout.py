"""Turns events into lines: JSON for machines, a readable line for a terminal; any fact is safe to show."""

import json
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from string import Formatter
from typing import Any, NamedTuple

import orjson

from stoker.log_words import WORDS
from stoker.urls import redact_url

_LONGEST_TEXT = 8_000
_DEEPEST = 6


class Event(NamedTuple):
    """What happened: when (seconds since the epoch), how bad, its name, its facts, the exception if there is one."""

    at: float
    level: str
    name: str
    facts: Mapping[str, object]
    error: BaseException | None = None
    message: str = ""


def json_line(event: Event) -> bytes:
    """Write an event as one JSON object on one line; facts cannot replace `time`, `level` and `event`."""
    instant = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line: dict[str, Any] = {"time": instant, "level": event.level, "event": clean(event.name)}
    if event.message:
        line["message"] = clean(event.message)
    line |= {key: fact for key, fact in cleaned(event.facts).items() if key not in line}
    if event.error is not None:
        line["traceback"] = clean(_traceback(event.error))
    return orjson.dumps(line) + b"\n"


def text_line(event: Event) -> bytes:
    """Write an event for a person: local time, name, its sentence, the other facts, the traceback below."""
    facts = cleaned(event.facts)
    said, used = _sentence(event.name, facts)
    message = _indented(clean(event.message)) if event.message else said
    pairs = [f"{_one_line(key)}={_shown(fact)}" for key, fact in facts.items() if key not in used]
    mark = "" if event.level == "info" else event.level.upper()
    words = (time.strftime("%H:%M:%S", time.localtime(event.at)), mark, _one_line(event.name), message, *pairs)
    below = "\n" + _indented("  " + clean(_traceback(event.error))) if event.error is not None else ""
    return (" ".join(word for word in words if word) + below + "\n").encode(errors="replace")


def plain_words(name: str, facts: Mapping[str, object]) -> str:
    """Write an event without time and level, for a logger that adds its own."""
    return " ".join([name, *(f"{key}={_shown(fact)}" for key, fact in cleaned(facts).items())])


def cleaned(facts: Mapping[str, object]) -> dict[str, Any]:
    """Clean every fact of an event."""
    return {str(clean(str(key))): clean(fact) for key, fact in facts.items()}


def clean(value: object, depth: int = 0) -> Any:
    """Make a value JSON can hold and anybody may read: no passwords in URLs, valid text, bounded length and depth."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if abs(value) < 2**63 else hex(value)[:_LONGEST_TEXT]
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {_clean_text(_text(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < _DEEPEST:
        return [clean(item, depth + 1) for item in value]
    return _clean_text(value if isinstance(value, str) else _text(value))


def _clean_text(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        half = _LONGEST_TEXT // 2
        text = f"{text[:half]} … {len(text) - 2 * half} characters cut … {text[-half:]}"
    text = text.replace("\0", "\ufffd").encode(errors="replace").decode()
    return redact_url(text) if "://" in text or "passw" in text.lower() else text


def _text(value: object) -> str:
    try:
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001  (an object of the application: its __str__ may raise anything)
        return f"<unprintable {type(value).__name__}>"


def _sentence(name: str, facts: Mapping[str, Any]) -> tuple[str, set[str]]:
    template = WORDS.get(name, "")
    used = {field for _, field, _, _ in Formatter().parse(template) if field}
    if not used <= facts.keys():
        return "", set()
    return template.format_map({key: _one_line(facts[key]) for key in used}), used


def _shown(fact: object) -> str:
    text = f"{fact:.6g}" if isinstance(fact, float) else _one_line(fact)
    bare = text and text.isprintable() and not any(mark in text for mark in ' "=')
    return text if bare else json.dumps(text, ensure_ascii=False)


def _one_line(fact: object) -> str:
    text = fact if isinstance(fact, str) else orjson.dumps(fact).decode()
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _indented(text: str) -> str:
    lines = ("".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line) for line in text.splitlines())
    return "\n  ".join(lines)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
