"""Tells the supervisor in which queues suspects wait: they run one at a time, in a worker that claims nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from stoker.drivers.calls import Call
from stoker.sql import statement
from worker_proc.link import Link
from worker_proc.messages import SuspectsWaiting
from worker_proc.outgoing import Outgoing

EVERY_S: Final = 1.0


class Solos:
    """Asks the database each second, and at once after a death: whoever noted a suspect may be gone by now."""

    name = "suspects that wait"

    def __init__(self, link: Link, *, queues: Iterable[str], outgoing: Outgoing) -> None:
        self._link = link
        self._queues = sorted(set(queues))
        self._outgoing = outgoing
        self.due_at = 0.0

    def hear(self) -> None:
        """A process has ended: it may have left suspects."""
        self.due_at = 0.0

    def run(self) -> None:
        """Look, and tell."""
        with self._link.limited() as db:
            waiting = db.run(_find(self._queues))
        self.due_at = time.monotonic() + EVERY_S
        # A full pipe: they wait, and so do we, a second longer.
        if waiting and self._outgoing.clear:
            self._outgoing.tell(SuspectsWaiting(waiting))


def _find(queues: list[str]) -> Call[list[str]]:
    return Call(statement("find_suspects"), {"queues": queues}, lambda rows: [row[0] for row in rows])
