"""The preloading example with what is measured of it: each job waits until every worker has done the same."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

from bench.beacon import report
from examples.preloading import tables
from stoker import job


@job
def collect(payload: dict[str, Any]) -> None:
    """What happens in every long-lived process sooner or later: the garbage collector looks at everything."""
    gc.collect()
    _wait(payload)


@job
def read_packed(payload: dict[str, Any]) -> None:
    """Read all of the packed table."""
    sum(tables.positions)
    _wait(payload)


@job
def read_objects(payload: dict[str, Any]) -> None:
    """Read all of the table of objects."""
    sum(len(place.name) + place.latitude + place.longitude for place in tables.places)
    _wait(payload)


def _wait(payload: dict[str, Any]) -> None:
    report(payload["to"])
    while not Path(payload["until"]).exists():
        time.sleep(0.02)
