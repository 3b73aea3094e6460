"""What a job came to, for those who ask; and how patiently they ask. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from stoker.drivers.base import FINISHED_STATES, LIVE_STATES, JobView
from stoker.durations import parse_duration
from stoker.enqueue_options import Duration
from stoker.errors import (
    DriverUnavailable,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobNotRetryable,
    JobRowStatusUnknown,
    WaitTimeout,
)

FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.25


def outcome_of(job_id: int, view: JobView | None) -> Any:
    """The stored result; None for a job that has not ended. Raises JobNotFound, JobFailed, JobCancelled."""
    if view is None:
        raise JobNotFound(job_id=job_id)
    if view.state == "dead":
        raise JobFailed(job_id=job_id, name=view.name, error=view.error)
    if view.state == "cancelled":
        raise JobCancelled(job_id=job_id, name=view.name, error=view.error)
    if view.state not in LIVE_STATES and view.state != "done":
        raise JobRowStatusUnknown(job_id=job_id, state=view.state)
    return view.result


def why_not_retried(error: JobNotFound, job_id: int, view: JobView | None) -> JobNotFound | JobNotRetryable:
    """A driver finds no dead or cancelled job of this id; there may be one in another state."""
    return error if view is None else JobNotRetryable(job_id=job_id, state=view.state)


class Patience:
    """Somebody who waits for a job: looks, pauses a little longer each time, and gives up at the time-out."""

    def __init__(self, *, job_id: int, timeout: Duration | None, clock: Callable[[], float]) -> None:
        self._job_id = job_id
        self._timeout = None if timeout is None else seconds_of(timeout)
        self._clock = clock
        self._started = clock()
        self._pause = FIRST_PAUSE
        self._view: JobView | None = None
        self._unavailable: DriverUnavailable | None = None
        self.ended = False

    def saw(self, view: JobView | None) -> None:
        """What the last look showed."""
        self._view, self._unavailable = view, None
        self.ended = view is None or view.state in FINISHED_STATES

    def missed(self, error: DriverUnavailable) -> None:
        """The last look showed nothing because the database was away."""
        self._unavailable = error

    def pause(self) -> float:
        """Seconds until the next look. Raises WaitTimeout when the time is up, DriverUnavailable if that is why."""
        if self.ended:
            return 0.0
        passed = self._clock() - self._started
        if self._timeout is not None and passed >= self._timeout:
            self._give_up(self._timeout)
        pause, self._pause = self._pause, min(self._pause * 1.5, LONGEST_PAUSE)
        return pause if self._timeout is None else min(pause, self._timeout - passed)

    def outcome(self) -> Any:
        """The job's outcome, once it has ended."""
        return outcome_of(self._job_id, self._view)

    def _give_up(self, timeout: float) -> None:
        if self._unavailable is not None:
            raise self._unavailable
        state = self._view.state if self._view else "unknown"
        raise WaitTimeout(job_id=self._job_id, timeout=timeout, state=state)


def seconds_of(timeout: Duration) -> float:
    """Read a duration as seconds. Raises ValueError."""
    return parse_duration(timeout.total_seconds() if isinstance(timeout, timedelta) else timeout)
