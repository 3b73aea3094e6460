"""Single enqueues per second on one connection; floor: a bare insert with the same columns and indexes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from bench.app import noop
from bench.floors.inserts import insert
from bench.reading import Reading, alternate
from bench.rig import Rig

PAYLOAD = {"id": 7}
WARM_UP = 10


def measure(rig: Rig) -> list[Reading]:
    """Each in a transaction of its own, and many in one of the caller's."""
    return [
        _measure(rig, "enqueue", "single enqueue + commit", _rate, lambda: noop.enqueue(PAYLOAD), goal="≥ 0.7"),
        _measure(
            rig,
            "enqueue.joined",
            "enqueues in one transaction",
            _rate_in_transaction,
            lambda: noop.enqueue(PAYLOAD, conn=rig.db.conn),
        ),
    ]


def _measure(
    rig: Rig,
    name: str,
    what: str,
    rate: Callable[[Rig, Callable[[], object]], float],
    enqueue: Callable[[], object],
    *,
    goal: str = "",
) -> Reading:
    ours, bare = alternate(
        rig.scale.rounds, product=partial(rate, rig, enqueue), floor=partial(rate, rig, lambda: insert(rig.db.conn))
    )
    floor_is = "raw INSERT + commit" if rate is _rate else "raw INSERTs in one transaction"
    return Reading(name=name, what=what, unit="/s", product=ours, floor=bare, floor_is=floor_is, goal=goal)


def _rate(rig: Rig, enqueue: Callable[[], object]) -> float:
    rig.db.wipe()
    rig.db.tidy()
    return _repeat(enqueue, rig.scale.singles)


def _rate_in_transaction(rig: Rig, enqueue: Callable[[], object]) -> float:
    with rig.db.conn.transaction():
        rate = _repeat(enqueue, rig.scale.singles)
    rig.db.wipe()
    return rate


def _repeat(enqueue: Callable[[], object], times: int) -> float:
    # Connections open and statements are prepared before the clock starts.
    for _ in range(WARM_UP):
        enqueue()
    began = time.monotonic_ns()
    for _ in range(times):
        enqueue()
    return times / ((time.monotonic_ns() - began) / 1e9)
