"""Makes the days of stoker.finished ahead of time, and removes what is older than its state is kept."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from psycopg.errors import LockNotAvailable, QueryCanceled

from stoker import logs
from stoker.drivers.base import FINISHED_STATES
from stoker.drivers.calls import Call, Rows
from stoker.drivers.postgres import PostgresDriver
from stoker.settings import RetentionSettings
from stoker.sql import statement
from worker_proc import singleton
from worker_proc.link import Link

EVERY_S: Final = 60.0
PATIENCE_S: Final = 120.0
AHEAD_DAYS: Final = 8
PAGE: Final = 1000
# A settlement behind us in the lock's queue waits at most 50 ms; then we step back for about as long.
_TRIES: Final = 5
_STEP_BACK_S: Final = (0.05, 0.2)
_AGAIN_S: Final = 5.0
# Below this, rows go one page after the other; above, with their whole day.
_WHOLE_DAYS_S: Final = 86_400.0

log = logs.get("keeper")

Day = tuple[str, str]


class Days:
    """Partitions: attached while they are empty, a week and more ahead; removed when the whole day is too old."""

    name = "days of finished jobs"

    def __init__(self, link: Link, *, keep: RetentionSettings, sleep: Callable[[float], object] = time.sleep) -> None:
        self._link = link
        self._seconds = _seconds(keep)
        self._sleep = sleep
        self.due_at = 0.0

    def run(self) -> None:
        """Make what is missing, then remove what is over; what was in somebody's way is tried again soon."""
        self.due_at = time.monotonic() + EVERY_S
        with self._link.limited(EVERY_S) as db, singleton.alone(db, singleton.RETENTION) as mine:
            if mine:
                made = self._each(db, "attach_day", db.run(_missing(list(self._seconds))))
                removed = self._each(db, "detach_day", db.run(_expired(self._seconds)))
                if made + removed:
                    log.event("finished.days_changed", made=made, removed=removed)

    def _each(self, db: PostgresDriver, change: str, days: list[Day]) -> int:
        done = 0
        for day in days:
            if not self._change(db, change, day):
                # Whoever is in the way of one is in the way of the others.
                self.due_at = time.monotonic() + _AGAIN_S
                break
            done += 1
        return done

    def _change(self, db: PostgresDriver, change: str, day: Day) -> bool:
        for _ in range(_TRIES):
            try:
                db.run(_on_day(change, day))
            except (LockNotAvailable, QueryCanceled):
                self._sleep(random.uniform(*_STEP_BACK_S))
            else:
                return True
        log.event("finished.day_in_use", change=change, state=day[0], day=day[1])
        return False


class Purging:
    """Rows that go one page after the other: states that are kept for less than a day, and attempts of ended jobs."""

    name = "old finished jobs"

    def __init__(self, link: Link, *, keep: RetentionSettings) -> None:
        self._link = link
        self._seconds = _seconds(keep)
        self._behind_since = 0.0
        self.due_at = 0.0

    def run(self) -> None:
        """One page of each kind; while there is more, for a third of the time, or all of it if that does not do."""
        began = time.monotonic()
        with self._link.limited(EVERY_S) as db, singleton.alone(db, singleton.RETENTION) as mine:
            full = mine and max(self._purge(db)) >= PAGE
        now = time.monotonic()
        self._behind_since = (self._behind_since or now) if full else 0.0
        # Whoever shortens the retention of millions must not feel it at the claims, and nobody may run out of disk.
        pause = 2 * (now - began) if now < self._behind_since + PATIENCE_S else 0.0
        self.due_at = now + (pause if full else EVERY_S)

    def _purge(self, db: PostgresDriver) -> list[int]:
        short = {state: seconds for state, seconds in self._seconds.items() if seconds < _WHOLE_DAYS_S}
        counts = [db.run(_purge_finished(state, seconds)) for state, seconds in short.items()]
        return [*counts, db.run(_purge_attempts(max(self._seconds.values())))]


def _seconds(keep: RetentionSettings) -> dict[str, float]:
    return {state: float(getattr(keep, state)) for state in FINISHED_STATES}


def _missing(states: list[str]) -> Call[list[Day]]:
    return Call(statement("list_missing_days"), {"states": states, "ahead": AHEAD_DAYS}, _days)


def _expired(seconds: dict[str, float]) -> Call[list[Day]]:
    params = {"states": list(seconds), "seconds": list(seconds.values())}
    return Call(statement("list_expired_days"), params, _days)


def _days(rows: Rows) -> list[Day]:
    return [(state, day) for state, day in rows]


def _on_day(change: str, day: Day) -> Call[bool]:
    return Call(statement(change), {"state": day[0], "day": day[1]}, lambda rows: rows[0][0])


def _purge_finished(state: str, seconds: float) -> Call[int]:
    params = {"state": state, "seconds": seconds, "limit": PAGE}
    return Call(statement("purge_finished"), params, lambda rows: rows[0][0])


def _purge_attempts(seconds: float) -> Call[int]:
    return Call(statement("purge_attempts"), {"seconds": seconds, "limit": PAGE}, lambda rows: rows[0][0])
