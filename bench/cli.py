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

from bench import machine, publish, report
from bench.errors import BenchFailed
from bench.interrupts import interrupts
from bench.reading import Reading
from bench.rig import Rig, rigged
from bench.scale import FULL, QUICK, SMOKE, Scale
from bench.workloads import WORKLOADS
from stoker.errors import StokerError

RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every workload was measured, 1 when one was not, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    if options.publish:
        return _publish(options.results)
    interrupts.install()
    try:
        document = measure(options.only or list(WORKLOADS), scale=options.scale, database_url=options.database_url)
    except KeyboardInterrupt:
        _note("interrupted; everything that was started has been stopped")
        return 130
    except (BenchFailed, StokerError, psycopg.Error) as error:
        _note(f"{type(error).__name__}: {error}")
        return 1
    report.show(document)
    _note(f"kept in {report.save(document, options.results)}")
    return 1 if document["failed"] else 0


def measure(names: Sequence[str], *, scale: Scale, database_url: str | None = None) -> dict[str, Any]:
    """Measure these workloads; returns the readings, and on what, at which scale and with which failures."""
    began = time.monotonic()
    readings: list[Reading] = []
    failed: dict[str, str] = {}
    with rigged(scale, database_url) as rig:
        context: dict[str, Any] = {"machine": machine.facts(rig.db, rig.directory), "scale": scale.name}
        context["workloads"] = list(names)
        for name in names:
            try:
                readings += _measure(name, rig)
            except (BenchFailed, StokerError, psycopg.Error) as error:
                failed[name] = f"{type(error).__name__}: {error}"
                _note(f"{name}: not measured\n{failed[name]}")
    context["machine"]["load_after"] = os.getloadavg()[0]
    return report.document_of(readings, **context, failed=failed, took_s=round(time.monotonic() - began, 1))


def _publish(results: Path) -> int:
    try:
        page = publish.publish(results)
    except BenchFailed as error:
        _note(str(error))
        return 1
    _note(f"written into {page} and beside it")
    return 0


def _measure(name: str, rig: Rig) -> list[Reading]:
    began = time.monotonic()
    readings = WORKLOADS[name](rig)
    _note(f"{name}: measured in {time.monotonic() - began:.0f} s")
    for reading in readings:
        _note(f"  {report.line(reading)}")
    return readings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=sys.modules["bench"].__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--quick",
        dest="scale",
        action="store_const",
        const=QUICK,
        help="a minute: one small round, much noise",
    )
    scale.add_argument(
        "--smoke",
        dest="scale",
        action="store_const",
        const=SMOKE,
        help="only to see that it still works",
    )
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), metavar="NAME", help=", ".join(WORKLOADS))
    parser.add_argument("--database-url", metavar="URL", help="a server to make a database on; default: embedded")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the JSON file goes")
    parser.add_argument("--publish", action="store_true", help="put the newest complete results into the page")
    parser.set_defaults(scale=FULL)
    return parser


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
