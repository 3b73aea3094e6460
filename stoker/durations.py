"""Durations and sizes as people write them: `1h30m`, `250ms`, `512MB`."""

import math
import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)\s*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "b": 1} | {
    name: base**power
    for power, letter in enumerate("kmgt", start=1)
    for name, base in ((letter, 1024), (f"{letter}ib", 1024), (f"{letter}b", 1000))
}


def parse_duration(value: str | float) -> float:
    """Read a duration as seconds: a number of seconds, or text such as `25s`, `250ms`, `1h30m`, `1d`.

    Raises ValueError for anything else, negative and endless durations included.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"not a duration: {value!r}")
    seconds = _spoken_seconds(value) if isinstance(value, str) else _as_float(value)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"not a duration: {value!r}; write for example 250ms, 25s, 5m, 1h30m or 1d")
    return seconds


def parse_size(value: str | int) -> int:
    """Read a size as bytes: a number of bytes, or text such as `512MB` (10⁶), `1GiB` or `1G` (2³⁰).

    Raises ValueError for anything else, negative sizes included.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = _SIZE_UNITS.get(match[2].lower()) if match else None
    size = float(match[1]) * unit if match and unit else math.nan
    if not math.isfinite(size) or size != int(size):
        raise ValueError(f"not a size: {value!r}; write for example 65536, 64KiB, 512MB or 1GiB")
    return int(size)


def format_duration(seconds: float) -> str:
    """Write seconds the way `parse_duration` reads them, to the millisecond: `1h30m`, `2.5s`, `250ms`."""
    whole_ms = round(seconds * 1000)
    if 0 < whole_ms < 1000:
        return f"{whole_ms}ms"
    parts = []
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        count, whole_ms = divmod(whole_ms, length)
        parts += [f"{count}{unit}"] if count else []
    if whole_ms or not parts:
        parts.append(f"{whole_ms / 1000:.3f}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)


def _spoken_seconds(text: str) -> float | None:
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    ordered = sorted(set(units), key=lambda unit: -_UNITS[unit])
    if not parts or units != ordered or _PART.sub("", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
