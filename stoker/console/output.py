"""What commands print: text, JSON and tables on standard output, refusals on standard error."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

import msgspec
import orjson

from stoker.errors import FAILED, StokerError

# What a terminal might obey instead of show.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NO_TERMINAL_WIDTH: Final = 1000


def say(text: str) -> None:
    """Write text and a line end to standard output. Ends the command with 1 when nobody can read it."""
    _write(lambda: sys.stdout.write(f"{text}\n"))


def say_json(value: object) -> None:
    """Write JSON in UTF-8, whatever the locale; times in UTC."""
    text = _as_json(value)
    _write(lambda: sys.stdout.buffer.write(text + b"\n"))


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Write a table; as wide as it needs to be when standard output is no terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    drawn = io.StringIO()
    Console(file=drawn, force_terminal=on_terminal, width=None if on_terminal else _NO_TERMINAL_WIDTH).print(table)
    say("\n".join(line.rstrip() for line in drawn.getvalue().splitlines()))


def explain(error: StokerError) -> None:
    """Write what was refused, why, and what to do about it to standard error."""
    complain(f"{error.code}: {error.cause.rstrip()}\nFix: {error.fix}")


def complain(text: str) -> None:
    """Write text to standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"{plain(text)}\n")


def plain(text: str) -> str:
    """Text that a terminal shows and does not obey."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def cut(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def in_json(value: object) -> str:
    """JSON on one line, for people."""
    return json.dumps(value, ensure_ascii=False, default=str)


def local_time(when: datetime | None) -> str:
    """A time in the zone of this machine, with the zone's name."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if when else ""


def _as_json(value: object) -> bytes:
    try:
        option = orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATETIME
        return orjson.dumps(value, default=_json_form, option=option)
    except TypeError:
        # Rows that other languages wrote may hold numbers of any size.
        return json.dumps(value, default=_json_form, indent=2, ensure_ascii=False).encode()


def _json_form(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _write(write: Callable[[], object]) -> None:
    if sys.stdout is None:
        return
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up()
    except OSError as error:
        complain(f"Standard output cannot be written: {error.strerror}.")
        _give_up()


def _give_up() -> NoReturn:
    # Python would try once more at exit, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(FAILED)
