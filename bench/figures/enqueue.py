"""Single enqueues per second on one connection; floor: insert … returning id with the same columns and indexes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from bench.app import noop
from bench.reading import Reading, alternate
from bench.rig import Rig

PAYLOAD: Final = {"id": 7}
INSERT: Final = """
insert into bench.jobs (id, pos, queue, name, payload)
select n, n, 'default', 'noop', %s from nextval('stoker.job_numbers') n returning id
"""


def measure(rig: Rig) -> list[Reading]:
    """Each in a transaction of its own, and many in one of the caller's."""
    alone = alternate(
        rig.scale.rounds,
        product=partial(_rate, rig, lambda: noop.enqueue(PAYLOAD)),
        floor=partial(_rate, rig, lambda: _insert(rig)),
    )
    joined = alternate(
        rig.scale.rounds,
        product=partial(_rate_in_transaction, rig, lambda: noop.enqueue(PAYLOAD, conn=rig.db.conn)),
        floor=partial(_rate_in_transaction, rig, lambda: _insert(rig)),
    )
    return [
        Reading(name="enqueue", what="single enqueues, a commit each", unit="/s", product=alone[0], floor=alone[1]),
        Reading(
            name="enqueue.joined", what="enqueues in one transaction", unit="/s", product=joined[0], floor=joined[1]
        ),
    ]


def _insert(rig: Rig) -> object:
    return rig.db.one(INSERT, '{"id":7}')


def _rate(rig: Rig, enqueue: Callable[[], object]) -> float:
    # Connections open and statements are prepared before the clock starts.
    for _ in range(10):
        enqueue()
    began = time.monotonic_ns()
    for _ in range(rig.scale.singles):
        enqueue()
    rate = rig.scale.singles / ((time.monotonic_ns() - began) / 1e9)
    rig.db.wipe()
    return rate


def _rate_in_transaction(rig: Rig, enqueue: Callable[[], object]) -> float:
    rig.db.wipe()
    began = time.monotonic_ns()
    with rig.db.conn.transaction():
        for _ in range(rig.scale.singles):
            enqueue()
    return rig.scale.singles / ((time.monotonic_ns() - began) / 1e9)
