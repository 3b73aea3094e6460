"""The result as a table and as a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.reading import Reading

# Enough for one line each when nobody's terminal sets the width.
_PLAIN_WIDTH: Final = 220


HEAD: Final = ("workload", "Stoker", "floor", "unit", "ratio", "goal", "spread", "floor is")


def show(document: dict[str, Any]) -> None:
    """Print the table: with a frame on a terminal, plain otherwise."""
    on_terminal = sys.stdout.isatty()
    table = Table(box=None if not on_terminal else Table().box, pad_edge=on_terminal)
    for column in HEAD:
        table.add_column(column, justify="right" if column in ("Stoker", "floor", "ratio") else "left", no_wrap=True)
    for reading in document["readings"]:
        table.add_row(*row(reading))
    Console(width=None if on_terminal else _PLAIN_WIDTH).print(table)


def row(reading: dict[str, Any]) -> tuple[str, ...]:
    """One reading, as the columns of HEAD name it."""
    floor = "" if reading["floor"] is None else number(reading["floor"])
    ratio = "" if reading["ratio"] is None else f"{reading['ratio']:.2f}"
    spread = f"{number(min(reading['samples']))} … {number(max(reading['samples']))}"
    value = number(reading["value"])
    return reading["what"], value, floor, reading["unit"], ratio, reading["goal"], spread, reading["floor_is"]


def line(reading: Reading) -> str:
    """One reading in short, for whoever waits."""
    ratio = "" if reading.ratio is None else f", {reading.ratio:.2f} of {reading.floor_is}"
    return f"{reading.what}: {number(reading.value)} {reading.unit}{ratio}"


def number(value: float) -> str:
    """As many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def document_of(readings: Sequence[Reading], **context: Any) -> dict[str, Any]:
    """Everything that was measured, samples included, and on what."""
    return {"at": datetime.now(UTC).isoformat(), **context, "readings": [as_json(reading) for reading in readings]}


def save(document: dict[str, Any], directory: Path) -> Path:
    """Write it into a file named for when it was measured."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{datetime.fromisoformat(document['at']):%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def as_json(reading: Reading) -> dict[str, Any]:
    """One reading with its samples."""
    return {
        "name": reading.name,
        "what": reading.what,
        "unit": reading.unit,
        "value": reading.value,
        "floor": reading.floor_value,
        "ratio": reading.ratio,
        "floor_is": reading.floor_is,
        "goal": reading.goal,
        "quantile": reading.quantile,
        "samples": list(reading.product),
        "floor_samples": list(reading.floor),
        **reading.details,
    }
