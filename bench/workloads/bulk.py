"""Bulk enqueues per second; floor: a bare COPY of the same rows into the same columns, its text built on the way."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import orjson

from bench.app import noop
from bench.reading import Reading, alternate
from bench.rig import Rig

COPY: Final = (
    "copy bench.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, payload) from stdin"
)
LINES: Final = 5_000


def measure(rig: Rig) -> list[Reading]:
    """One reading per size of the batch."""
    return [_measure(rig, count) for count in rig.scale.bulks]


def _measure(rig: Rig, count: int) -> Reading:
    ours, bare = alternate(rig.scale.rounds, product=partial(_product, rig, count), floor=partial(_floor, rig, count))
    return Reading(
        name=f"bulk.{count}",
        what=f"bulk enqueue of {count:,}",
        unit="/s",
        product=ours,
        floor=bare,
        floor_is="raw COPY of the same rows",
        goal="≥ 0.4",
        details={"jobs": count},
    )


def _payloads(count: int) -> list[dict[str, Any]]:
    return [{"id": at, "note": "x" * 80} for at in range(count)]


def _product(rig: Rig, count: int) -> float:
    rig.db.wipe()
    rig.db.tidy()
    payloads = _payloads(count)
    began = time.monotonic_ns()
    noop.enqueue_many(payloads)
    return count / ((time.monotonic_ns() - began) / 1e9)


def _floor(rig: Rig, count: int) -> float:
    rig.db.wipe()
    rig.db.tidy()
    payloads = _payloads(count)
    began = time.monotonic_ns()
    with rig.db.conn.cursor().copy(COPY) as copy:
        for start in range(0, count, LINES):
            copy.write("".join(map(_line, range(start + 1, count + 1), payloads[start : start + LINES])))
    return count / ((time.monotonic_ns() - began) / 1e9)


def _line(at: int, payload: dict[str, Any]) -> str:
    return f"{at}\t{at}\tdefault\tnoop\tready\t0\t\\N\t20\t\\N\t{orjson.dumps(payload).decode()}\n"
