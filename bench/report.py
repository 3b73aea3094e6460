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
_PLAIN_WIDTH: Final = 200


def show(readings: Sequence[Reading]) -> None:
    """Print the table: with a frame on a terminal, plain otherwise."""
    on_terminal = sys.stdout.isatty()
    table = Table(box=None if not on_terminal else Table().box, pad_edge=on_terminal)
    table.add_column("figure", no_wrap=True)
    for column in ("stoker", "floor", "unit", "stoker ÷ floor", "spread"):
        table.add_column(column, justify="left" if column == "unit" else "right", no_wrap=True)
    for reading in readings:
        table.add_row(*_row(reading))
    Console(width=None if on_terminal else _PLAIN_WIDTH).print(table)


def _row(reading: Reading) -> tuple[str, ...]:
    floor = "" if reading.floor_value is None else number(reading.floor_value)
    ratio = "" if reading.ratio is None else f"{reading.ratio:.2f}"
    spread = f"{number(min(reading.product))} … {number(max(reading.product))}"
    return reading.what, number(reading.value), floor, reading.unit, ratio, spread


def number(value: float) -> str:
    """As many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def save(readings: Sequence[Reading], directory: Path, **context: Any) -> Path:
    """Write everything, samples included, into a file named for now."""
    directory.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    path = directory / f"{now:%Y%m%dT%H%M%SZ}.json"
    document = {"at": now.isoformat(), **context, "readings": [as_json(reading) for reading in readings]}
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
        "quantile": reading.quantile,
        "samples": list(reading.product),
        "floor_samples": list(reading.floor),
        **reading.details,
    }
