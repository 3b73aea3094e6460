"""Makes delayed jobs ready the moment they are due."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Final

from stoker import logs
from stoker.drivers import calls, enqueueing
from stoker.drivers.calls import Call
from stoker.drivers.postgres import PostgresDriver
from stoker.settings import Settings
from stoker.sql import statement
from worker_proc.link import Link
from worker_proc.wakeups import Wakeups

PAGE: Final = 1000
# Jobs can come from clients that do not notify.
LONGEST_SLEEP_S: Final = 1.0
# Before a due row that somebody else holds is looked at again; doubled up to the longest sleep.
_LEAST_PAUSE_S: Final = 0.01

log = logs.get("keeper")


class Due:
    """Sleeps until the next due time the database knows; one page per turn."""

    name = "due jobs"

    def __init__(self, link: Link, *, wakeups: Wakeups, settings: Settings) -> None:
        self._link = link
        self._wakeups = wakeups
        self._notify = settings.notify
        self._pause = 0.0
        self.due_at = 0.0

    def hear(self) -> None:
        """The next due time may have moved."""
        self.due_at = 0.0

    def run(self) -> None:
        """Promote a page of what is due, then look when the next job is."""
        with self._link.limited() as db:
            promoted = db.run(calls.promote_due(PAGE))
            announce(db, self._wakeups, promoted, notify=self._notify)
            overdue, due_in = db.run(_next_due())
        self._pause = 0.0 if promoted or not overdue else min(LONGEST_SLEEP_S, max(_LEAST_PAUSE_S, self._pause * 2))
        self.due_at = time.monotonic() + min(due_in, self._pause if overdue else LONGEST_SLEEP_S)


class Unparking:
    """Once: jobs that were put off because nobody knew their name, and that this host knows."""

    name = "jobs with unknown names"

    def __init__(self, link: Link, *, names: Iterable[str], wakeups: Wakeups, settings: Settings) -> None:
        self._link = link
        self._names = sorted(names)
        self._wakeups = wakeups
        self._notify = settings.notify
        self.due_at = 0.0

    def run(self) -> None:
        """One page per turn until none is left."""
        with self._link.limited() as db:
            queues = db.run(_unpark(self._names))
            announce(db, self._wakeups, queues, notify=self._notify)
        if len(queues) < PAGE:
            self.due_at = math.inf


def announce(db: PostgresDriver, wakeups: Wakeups, queues: Iterable[str], *, notify: bool) -> None:
    """Wake workers here at once, and tell the other hosts."""
    if names := set(queues):
        for queue in names:
            wakeups.hear(queue)
        if notify:
            db.run(enqueueing.notify_ready(names))


def _next_due() -> Call[tuple[bool, float]]:
    """Whether something is due that somebody else holds, and the seconds until the next job is."""
    return Call(statement("next_due"), {}, lambda rows: (rows[0][0], math.inf if rows[0][1] is None else rows[0][1]))


def _unpark(names: list[str]) -> Call[list[str]]:
    return Call(statement("unpark_known"), {"names": names, "limit": PAGE}, lambda rows: [row[0] for row in rows])
