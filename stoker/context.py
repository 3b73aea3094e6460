"""What a handler knows about its run."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, Protocol

from stoker import logs
from stoker.drivers.base import Claimed
from stoker.enqueue_options import Duration, check_seconds
from stoker.errors import ExtensionInvalid
from stoker.run_signal import RunSignal

SHORTEST_EXTENSION: Final = 0.001


class Running(Protocol):
    """What executes a body, as far as the body can ask for it."""

    @property
    def signal(self) -> RunSignal:
        """Tells when the run should end."""

    def time_left(self) -> float | None:
        """Seconds until the run's timeout or the end of a drain, whichever is first; None without either."""

    def lease(self) -> None:
        """Hold the job by a lease from here on, if a row lock was enough so far.

        Whatever writes about a run before its end calls this first: only then is its run_no in the database. Raises
        Aborted when the job is not ours any more.
        """

    def extend(self, seconds: float) -> None:
        """Let the timeout be so many seconds from now. Raises Aborted when the run was told to end."""


class Ctx:
    """One run of one job, as its handler sees it.

    `attempt` counts from 1; a run that a drain interrupted is not counted. `signal` tells when the run should end.
    """

    __slots__ = ("_claimed", "_logger", "_run", "payload")

    def __init__(self, *, claimed: Claimed, run: Running) -> None:
        self._claimed = claimed
        self._run = run
        self._logger: logs.JobLogger | None = None
        self.payload: Any = None

    @property
    def signal(self) -> RunSignal:
        """Tells when the run should end, and why."""
        return self._run.signal

    @property
    def job_id(self) -> int:
        """The id that `enqueue` returned."""
        return self._claimed.id

    @property
    def run_no(self) -> int:
        """Raised by every claim of this job, never lowered: a fencing token for what the handler writes elsewhere.

        A short job that was held by a row lock is leased first, so that no other run has this number. Raises Aborted
        when the job is not ours any more.
        """
        self._run.lease()
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
        return self._run.time_left()

    def extend(self, seconds: Duration) -> None:
        """Move the timeout of this run to `seconds` (a number, "5m" or a timedelta) from now, be it later or sooner.

        The process is killed `kill_after` later, as ever. A job without a timeout has one from here on. The end of a
        drain and a cancel are not moved. A short job that was held by a row lock is leased first. Raises
        ExtensionInvalid for what is no time from 1 ms up, and Aborted when the job is not ours any more, was cancelled,
        or its timeout has passed already.
        """
        wanted = check_seconds("seconds", seconds, self._refuse)
        if wanted < SHORTEST_EXTENSION:
            raise self._refuse("seconds", f"{seconds!r} is less than 1 ms: raise an error to end the run now")
        self._run.lease()
        self._run.extend(wanted)

    def _refuse(self, argument: str, problem: str) -> ExtensionInvalid:
        return ExtensionInvalid(name=self.name, job_id=self.job_id, problem=problem)

    def __repr__(self) -> str:
        return f"<run {self._claimed.run_no} of job {self.job_id} ({self.name}), attempt {self.attempt}>"


running: ContextVar[Ctx | None] = ContextVar("stoker_ctx", default=None)


def current_ctx() -> Ctx | None:
    """The context of the run this code is part of, or None outside a run."""
    return running.get()
