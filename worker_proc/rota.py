"""Runs duties when they are due, and keeps the trouble of one away from the others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from psycopg.errors import ReadOnlySqlTransaction

from stoker import logs
from worker_proc.link import LinkDown

_LEAST_PAUSE_S: Final = 0.1
# What is due so soon is done now: one waking for all that is due each second, instead of one for each.
_SLACK_S: Final = 0.05
FAR: Final = math.inf

log = logs.get("keeper")


class Duty(Protocol):
    """One thing the keeper sees to again and again. `due_at` is CLOCK_MONOTONIC in seconds."""

    name: str

    @property
    def due_at(self) -> float:
        """When it wants to run next."""

    def run(self) -> None:
        """Do it, and move `due_at`."""


class Rota:
    """Duties in order of importance. One that fails is logged and put off, at most by `longest_pause` seconds."""

    def __init__(self, duties: Iterable[Duty], *, is_up: Callable[[], bool], longest_pause: float) -> None:
        self._duties = tuple(duties)
        self._longest_pause = longest_pause
        self._is_up = is_up
        self._failures: dict[Duty, int] = {}
        self._not_before: dict[Duty, float] = {}

    def run_due(self) -> None:
        """Run everything that is due, once. Raises LinkDown when the connection broke on the way."""
        slack = _SLACK_S if self.next_due() <= time.monotonic() else 0.0
        for duty in self._duties:
            if self._due_at(duty) <= time.monotonic() + slack:
                self._run(duty)

    def next_due(self) -> float:
        """When the next duty is due (CLOCK_MONOTONIC, seconds)."""
        return min(self._due_at(duty) for duty in self._duties)

    def _due_at(self, duty: Duty) -> float:
        return max(duty.due_at, self._not_before.get(duty, 0.0))

    def _run(self, duty: Duty) -> None:
        try:
            duty.run()
        except LinkDown:
            raise
        except ReadOnlySqlTransaction as error:
            # After a failover this may be the wrong server: a new connection finds the right one.
            raise LinkDown(str(error)) from error
        except Exception as error:
            if not self._is_up():
                raise LinkDown(str(error)) from error
            self._put_off(duty, error)
        else:
            self._failures.pop(duty, None)
            self._not_before.pop(duty, None)

    def _put_off(self, duty: Duty, error: Exception) -> None:
        failures = self._failures[duty] = self._failures.get(duty, 0) + 1
        pause = min(self._longest_pause, _LEAST_PAUSE_S * 2.0 ** min(failures - 1, 20))
        self._not_before[duty] = time.monotonic() + pause
        # The first failures, then ever fewer of them: 1, 2, 4, 8 …
        if failures & (failures - 1) == 0:
            log.error("keeper.duty_failed", duty=duty.name, failures=failures, retry_in_s=pause, exc_info=error)
