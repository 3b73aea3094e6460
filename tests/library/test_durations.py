"""Durations and sizes are read as people write them, and nothing else is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.durations import format_duration, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("25s", 25),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1d", 86400),
        (12, 12),
        (1.5, 1.5),
        ("12", 12),
        ("1.5h", 5400),
        (" 1h 30m ", 5400),
        ("0", 0),
        ("0s", 0),
        ("1m500ms", 60.5),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "soon",
        "5 minutes",
        "-1s",
        -1,
        "1m1m",
        "30m1h",
        "1e3",
        math.nan,
        math.inf,
        True,
        None,
        [],
        "٣s",
        "9" * 400,
        "1h30",
        "m5",
        10**400,
    ],
)
def test_what_is_not_a_duration(value: object) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(value)  # type: ignore[arg-type]


@given(st.integers(min_value=0, max_value=10**12))
def test_a_formatted_duration_reads_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, abs=0.0006)


@given(st.text())
def test_any_text_is_a_finite_duration_or_a_value_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert math.isfinite(seconds)
    assert seconds >= 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (1, "1s"), (2.5, "2.5s"), (90, "1m30s"), (5400, "1h30m"), (86400, "1d")],
)
def test_durations_are_written_shortly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MB", 512_000_000),
        ("1GiB", 2**30),
        ("1G", 2**30),
        ("64kib", 65536),
        ("1.5KiB", 1536),
        (7, 7),
        ("7", 7),
        ("7B", 7),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("value", ["", "big", "-1", -1, "1.5", 1.5, True, None, "1PB", "9" * 400])
def test_what_is_not_a_size(value: object) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(value)  # type: ignore[arg-type]
