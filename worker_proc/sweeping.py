"""Puts jobs of hosts that do not exist any more back in line."""

from __future__ import annotations

import time
from typing import Final

from stoker import logs
from stoker.drivers.calls import Call, Keeping
from stoker.settings import Settings
from stoker.sql import statement
from worker_proc.link import Link

PAGE: Final = 500
# A job may lose this many hosts per crash it may cause.
_LOSSES_PER_CRASH: Final = 3

log = logs.get("keeper")


class Sweeping:
    """Any keeper sweeps for any host. A page per turn, so that a big loss does not hold up deaths and due jobs here."""

    name = "jobs of lost hosts"

    def __init__(self, link: Link, *, settings: Settings) -> None:
        self._link = link
        self._every = settings.renew_every
        self._max_lost = settings.max_crashes * _LOSSES_PER_CRASH
        self._keeping = Keeping.of(settings)
        self.due_at = 0.0

    def run(self) -> None:
        """Sweep one page; again at once when it was full."""
        with self._link.limited() as db:
            swept = db.run(_sweep(self._max_lost, self._keeping))
        if swept:
            endings = {state: swept.get(state, 0) for state in ("ready", "cancelled", "dead")}
            log.warning("jobs.swept", endings=endings)
        self.due_at = time.monotonic() + (0.0 if sum(swept.values()) >= PAGE else self._every)


def _sweep(max_lost: int, keeping: Keeping) -> Call[dict[str, int]]:
    params = {
        "max_lost": max_lost,
        "limit": PAGE,
        "keep_dead": keeping.dead,
        "keep_cancelled": keeping.cancelled,
        "notify": keeping.notify,
    }
    return Call(statement("sweep_lost"), params, lambda rows: {row[0]: row[1] for row in rows})
