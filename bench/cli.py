"""The command line: measure what was asked for, show it, keep it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from bench import machine, report
from bench.errors import BenchFailed
from bench.figures import FIGURES
from bench.interrupts import interrupts
from bench.reading import Reading
from bench.rig import Rig, rigged
from bench.scale import FULL, QUICK, SMOKE, Scale
from stoker.errors import StokerError

RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every figure was measured, 1 when one was not, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    interrupts.install()
    try:
        readings, context = measure(
            options.only or list(FIGURES), scale=options.scale, database_url=options.database_url
        )
    except KeyboardInterrupt:
        _note("interrupted; everything that was started has been stopped")
        return 130
    except (BenchFailed, StokerError, psycopg.Error) as error:
        _note(f"{type(error).__name__}: {error}")
        return 1
    report.show(readings)
    _note(f"kept in {report.save(readings, options.results, **context)}")
    return 1 if context["failed"] else 0


def measure(
    names: Sequence[str], *, scale: Scale, database_url: str | None = None
) -> tuple[list[Reading], dict[str, Any]]:
    """Measure these figures; returns the readings, and on what, at which scale and with which failures."""
    began = time.monotonic()
    readings: list[Reading] = []
    failed: dict[str, str] = {}
    with rigged(scale, database_url) as rig:
        context: dict[str, Any] = {"machine": machine.facts(rig.db, rig.directory), "scale": scale.name}
        for name in names:
            try:
                readings += _measure(name, rig)
            except (BenchFailed, StokerError, psycopg.Error) as error:
                failed[name] = f"{type(error).__name__}: {error}"
                _note(f"{name}: not measured\n{failed[name]}")
    context["machine"]["load_after"] = os.getloadavg()[0]
    return readings, {**context, "failed": failed, "took_s": round(time.monotonic() - began, 1)}


def _measure(name: str, rig: Rig) -> list[Reading]:
    began = time.monotonic()
    readings = FIGURES[name](rig)
    _note(f"{name}: measured in {time.monotonic() - began:.0f} s")
    return readings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=sys.modules["bench"].__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--quick", dest="scale", action="store_const", const=QUICK, help="one or two minutes: fewer rounds, more noise"
    )
    scale.add_argument(
        "--smoke",
        dest="scale",
        action="store_const",
        const=SMOKE,
        help="only to see that it still works",
    )
    parser.add_argument("--only", action="append", choices=list(FIGURES), metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--database-url", metavar="URL", help="a server to make a database on; default: embedded")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the JSON file goes")
    parser.set_defaults(scale=FULL)
    return parser


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
