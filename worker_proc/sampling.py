"""Samples how deep the queues are, for the metrics: one keeper asks the jobs, every keeper reads the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from psycopg.errors import QueryCanceled

from stoker import logs
from stoker.drivers.base import LIVE_STATES
from stoker.drivers.calls import Call, Rows
from stoker.drivers.postgres import PostgresDriver
from stoker.sql import statement
from worker_proc import singleton
from worker_proc.link import Link
from worker_proc.messages import Gauges, QueueGauge

EVERY_S: Final = 15.0
MOST_S: Final = 240.0
COST_S: Final = 2.0
# What fits in one packet.
MOST_QUEUES: Final = 1000

log = logs.get("keeper")


class Sampling:
    """A sample that would cost more than 2 s is given up and tried less often; the old one stays."""

    name = "queue samples"

    def __init__(
        self, link: Link, *, queues: Iterable[str], publish: Callable[[Gauges], None], cost: float = COST_S
    ) -> None:
        self._link = link
        self._queues = sorted(queues)
        self._publish = publish
        self._cost = cost
        self._every = EVERY_S
        self.due_at = 0.0

    def run(self) -> None:
        """Sample if nobody has lately, then publish what there is."""
        self.due_at = time.monotonic() + self._every
        with self._link.limited(4 * self._cost + 2) as db:
            with singleton.alone(db, singleton.SAMPLING) as mine:
                if mine and not db.run(_is_fresh()):
                    self._sample(db)
            self._publish(db.run(_read()))

    def _sample(self, db: PostgresDriver) -> None:
        try:
            for name in ("sample_depths", "sample_dead"):
                with db.conn.transaction():
                    db.run(_cap(self._cost))
                    db.run(Call(statement(name), {"queues": self._queues}, lambda _: None))
        except QueryCanceled:
            self._every = min(MOST_S, self._every * 2)
            log.warning("queues.sample_too_slow", limit_s=self._cost, next_in_s=self._every)
        else:
            self._every = EVERY_S


def _is_fresh() -> Call[bool]:
    return Call(statement("is_sample_fresh"), {"age": EVERY_S - 1}, lambda rows: rows[0][0])


def _cap(seconds: float) -> Call[None]:
    return Call(statement("cap_statement"), {"ms": str(int(seconds * 1000))}, lambda _: None)


def _read() -> Call[Gauges]:
    return Call(statement("read_depths"), {"limit": MOST_QUEUES}, _gauges)


def _gauges(rows: Rows) -> Gauges:
    return Gauges(
        [
            QueueGauge(queue, {state: depth.get(state, 0) for state in LIVE_STATES}, oldest or 0.0, dead)
            for queue, depth, oldest, dead in rows
        ]
    )
