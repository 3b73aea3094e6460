"""Readers turn one raw value of any source into a setting, or say in a ValueError what was expected."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stoker.durations import format_duration, parse_duration, parse_size
from stoker.errors import DriverNotImplemented

Reader = Callable[[object], Any]

_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
_OTHER_DRIVERS = ("redis", "rediss", "nats")


def shown(value: object) -> str:
    """Show a value from a settings file in an error message, shortly."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def whole(low: int, high: int) -> Reader:
    """Read a whole number within bounds."""

    def read(value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()) else value
        if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
            raise ValueError(f"expected a whole number from {low} to {high}, got {shown(value)}")
        return number

    return read


def fraction(low: float, high: float) -> Reader:
    """Read a number within bounds."""

    def read(value: object) -> float:
        text = isinstance(value, str) and re.fullmatch(r"[0-9]*\.?[0-9]+", value.strip())
        number = float(value) if text and isinstance(value, str) else value
        if not isinstance(number, int | float) or isinstance(number, bool) or not low <= number <= high:
            raise ValueError(f"expected a number from {low:g} to {high:g}, got {shown(value)}")
        return float(number)

    return read


def duration(low: float, high: float) -> Reader:
    """Read a duration within bounds, in seconds."""

    def read(value: object) -> float:
        seconds = _or_nan(parse_duration, value)
        if not low <= seconds <= high:
            bounds = f"{format_duration(low)} to {format_duration(high)}"
            raise ValueError(f"expected a duration from {bounds}, got {shown(value)}")
        return seconds

    return read


def size(low: int, high: int) -> Reader:
    """Read a size within bounds, in bytes."""

    def read(value: object) -> int:
        number = _or_nan(parse_size, value)
        if not low <= number <= high:
            raise ValueError(f"expected a size from {low} to {high} bytes such as 64KiB, got {shown(value)}")
        return int(number)

    return read


def choice(*words: str) -> Reader:
    """Read one of a few words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in words:
            raise ValueError(f"expected one of {', '.join(words)}, got {shown(value)}")
        return value.lower()

    return read


def flag(value: object) -> bool:
    """Read true or false."""
    word = str(value).lower() if isinstance(value, str | bool) else ""
    if word not in _YES + _NO:
        raise ValueError(f"expected true or false, got {shown(value)}")
    return word in _YES


def modules(value: object) -> tuple[str, ...]:
    """Read module names: a list, or one text with commas."""
    names: Sequence[object] = [part.strip() for part in value.split(",")] if isinstance(value, str) else []
    names = value if isinstance(value, list | tuple) else names
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"expected importable module names such as shop.jobs, got {shown(name)}")
    if not names and value not in ([], ()):
        raise ValueError(f"expected a list of module names, got {shown(value)}")
    return tuple(dict.fromkeys(str(name) for name in names))


def address(value: object) -> tuple[str, int] | None:
    """Read `HOST:PORT` (`[::1]:8585` too), or `off`."""
    if value is False or (isinstance(value, str) and value.strip().lower() == "off"):
        return None
    match = _ADDRESS.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match or int(match[2]) > 65535:
        raise ValueError(f'expected "HOST:PORT" such as "127.0.0.1:8585", or "off", got {shown(value)}')
    return match[1].strip("[]"), int(match[2])


def absolute_path(value: object) -> str:
    """Read the absolute path of a directory."""
    if not isinstance(value, str) or not value.startswith("/") or not _storable(value):
        raise ValueError(f"expected an absolute path, got {shown(value)}")
    return value


def database_url(value: object) -> str:
    """Read what may be a PostgreSQL URL or conninfo string; its text is never repeated in a message.

    Raises DriverNotImplemented for the URL of a queue driver that does not exist yet.
    """
    scheme = value.partition("://")[0].strip().lower() if isinstance(value, str) and "://" in value else ""
    if scheme in _OTHER_DRIVERS:
        raise DriverNotImplemented(scheme=scheme)
    if not isinstance(value, str) or not value.strip() or not _storable(value):
        raise ValueError("expected a postgresql:// URL")
    if re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) and scheme not in ("postgresql", "postgres"):
        raise ValueError(f"expected a postgresql:// URL, got a {scheme}:// one")
    return value.strip()


def check_conninfo(text: str) -> None:
    """Have libpq read a URL or conninfo string. Raises ValueError."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        ports = str(conninfo_to_dict(text).get("port") or "5432").split(",")
    except psycopg.ProgrammingError as error:
        # libpq quotes the part it did not understand, which may well be a password.
        reason = re.sub(r'"[^"]*"', '"…"', str(error).strip())
        raise ValueError(f"expected a postgresql:// URL, got text that cannot be read as one: {reason}") from None
    if not all(re.fullmatch(r"[0-9]{0,5}", port) and int(port or 5432) in range(1, 65536) for port in ports):
        raise ValueError("expected a port from 1 to 65535 in the URL")


def _storable(text: str) -> bool:
    return "\0" not in text and text == text.encode(errors="replace").decode()


def _or_nan(parse: Callable[[Any], float], value: object) -> float:
    try:
        return parse(value)
    except ValueError:
        return math.nan
