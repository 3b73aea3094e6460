"""What a handler knows about its run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from stoker import logs
from stoker.drivers.base import Claimed
from stoker.run_signal import RunSignal


class Ctx:
    """One run of one job, as its handler sees it.

    `attempt` counts from 1; a run that a drain interrupted is not counted. `signal` tells when the run should end.
    """

    __slots__ = ("_claimed", "_logger", "_time_left", "payload", "signal")

    def __init__(self, *, claimed: Claimed, signal: RunSignal, time_left: Callable[[], float | None]) -> None:
        self._claimed = claimed
        self._time_left = time_left
        self._logger: logs.JobLogger | None = None
        self.signal = signal
        self.payload: Any = None

    @property
    def job_id(self) -> int:
        """The id that `enqueue` returned."""
        return self._claimed.id

    @property
    def run_no(self) -> int:
        """Raised by every claim of this job, never lowered: a fencing token for what the handler writes elsewhere."""
        return self._claimed.run_no

    @property
    def name(self) -> str:
        """The job's name."""
        return self._claimed.name

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._claimed.queue

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claimed.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the job has."""
        return self._claimed.max_attempts

    @property
    def tenant(self) -> str | None:
        """Whose job it is, if that was said."""
        return self._claimed.tenant

    @property
    def logger(self) -> logs.JobLogger:
        """A standard logger that names the job in every record."""
        if self._logger is None:
            self._logger = logs.job_logger(self.job_id, self.name, self.attempt)
        return self._logger

    def time_left(self) -> float | None:
        """Seconds until this run's timeout or the end of a drain, whichever is first; None without either."""
        return self._time_left()

    def __repr__(self) -> str:
        return f"<run {self.run_no} of job {self.job_id} ({self.name}), attempt {self.attempt}>"


running: ContextVar[Ctx | None] = ContextVar("stoker_ctx", default=None)


def current_ctx() -> Ctx | None:
    """The context of the run this code is part of, or None outside a run."""
    return running.get()
