"""Errors of asking for a job and of changing what becomes of it: the caller sees them."""

from typing import Any

from stoker.errors.base import StokerError, sentence


class JobNotFound(StokerError):
    """There is no row for this id, live or finished."""

    code = "STOKER_JOB_NOT_FOUND"
    terminal = True

    def __init__(self, *, job_id: int | str) -> None:
        super().__init__(
            cause=f"There is no job {job_id}; it never existed or its retention time is over.",
            fix="List the jobs that are kept with `stoker jobs ls`, or raise [retention] in stoker.toml.",
        )


class JobNotCancellable(StokerError):
    """The job has already reached a final state."""

    code = "STOKER_JOB_NOT_CANCELLABLE"
    terminal = True

    def __init__(self, *, job_id: int, state: str) -> None:
        self.state = state
        super().__init__(
            cause=f"Job {job_id} cannot be cancelled: it is already {state}.",
            fix=f"Look at its outcome with `stoker jobs show {job_id}`.",
        )


class JobNotRetryable(StokerError):
    """Only dead and cancelled jobs can be put back in line."""

    code = "STOKER_JOB_NOT_RETRYABLE"
    terminal = True

    def __init__(self, *, job_id: int, state: str) -> None:
        self.state = state
        super().__init__(
            cause=f"Job {job_id} cannot be put back in line: it is {state}, neither dead nor cancelled.",
            fix=f"Look at it with `stoker jobs show {job_id}`; to do the same work again, enqueue a new job.",
        )


class JobRowStatusUnknown(StokerError):
    """A row carries a state this version does not know."""

    code = "STOKER_JOB_ROW_STATUS_UNKNOWN"

    def __init__(self, *, job_id: int, state: str) -> None:
        self.state = state
        super().__init__(
            cause=f"Job {job_id} is in the state {state!r}, which this version of Stoker does not know.",
            fix="Upgrade Stoker on this host to the version that wrote the row.",
        )


class WaitTimeout(StokerError):
    """The caller's patience ended before the job did; the job goes on."""

    code = "STOKER_WAIT_TIMEOUT"

    def __init__(self, *, job_id: int, timeout: float, state: str) -> None:
        self.state = state
        super().__init__(
            cause=f"Job {job_id} did not finish within {timeout:g} s; it is {state}.",
            fix=f"Wait longer, or see what holds it up with `stoker jobs show {job_id}`.",
        )


class JobFailed(StokerError):
    """The job whose result was asked for is dead; `error` is the stored record of its last attempt."""

    code = "STOKER_JOB_FAILED"

    def __init__(self, *, job_id: int, name: str, error: Any = None) -> None:
        self.error = error
        super().__init__(
            cause=sentence(f"Job {job_id} ({name}) is dead: {_told(error)}"),
            fix=f"Look at it with `stoker jobs show {job_id}`; `stoker jobs retry {job_id}` puts it back in line.",
        )


class JobCancelled(StokerError):
    """The job whose result was asked for was cancelled; `error` is the stored reason."""

    code = "STOKER_JOB_CANCELLED"

    def __init__(self, *, job_id: int, name: str, error: Any = None) -> None:
        self.error = error
        super().__init__(
            cause=sentence(f"Job {job_id} ({name}) was cancelled: {_told(error)}"),
            fix=f"`stoker jobs retry {job_id}` puts it back in line.",
        )


def _told(error: Any) -> str:
    if not isinstance(error, dict):
        return "no reason was stored"
    return ": ".join(str(error[part]) for part in ("type", "message") if error.get(part))
