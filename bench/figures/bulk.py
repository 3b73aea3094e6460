"""Bulk enqueues per second; floor: a bare COPY of the same rows into the same columns and indexes."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from bench.app import noop
from bench.reading import Reading, alternate
from bench.rig import Rig

COPY: Final = "copy bench.jobs (id, pos, queue, name, payload) from stdin"


def measure(rig: Rig) -> list[Reading]:
    """One reading per size of the batch."""
    return [_measure(rig, count) for count in rig.scale.bulks]


def _measure(rig: Rig, count: int) -> Reading:
    ours, bare = alternate(rig.scale.rounds, product=partial(_product, rig, count), floor=partial(_floor, rig, count))
    what = f"enqueue_many of {count:,}"
    return Reading(name=f"bulk.{count}", what=what, unit="/s", product=ours, floor=bare)


def _product(rig: Rig, count: int) -> float:
    rig.db.wipe()
    payloads = [{"id": at} for at in range(count)]
    began = time.monotonic_ns()
    noop.enqueue_many(payloads)
    return count / ((time.monotonic_ns() - began) / 1e9)


def _floor(rig: Rig, count: int) -> float:
    rig.db.wipe()
    began = time.monotonic_ns()
    with rig.db.conn.cursor().copy(COPY) as copy:
        for at in range(count):
            copy.write_row((at, at, "default", "noop", f'{{"id":{at}}}'))
    return count / ((time.monotonic_ns() - began) / 1e9)
