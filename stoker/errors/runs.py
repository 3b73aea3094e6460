"""Errors of running jobs: they are stored with an attempt or logged by a worker."""

from stoker.errors.base import StokerError, sentence


class JobTimeout(StokerError):
    """An attempt ran longer than its job allows."""

    code = "STOKER_JOB_TIMEOUT"

    def __init__(self, *, name: str, job_id: int, timeout: float, killed: bool = False) -> None:
        how = "ignored the interruption and was killed" if killed else "was stopped"
        super().__init__(
            cause=f"Job {job_id} ({name}) ran longer than its timeout of {timeout:g} s and {how}.",
            fix=f"Raise timeout= in the @job of {name!r}, split the work into smaller jobs, or let the "
            "handler call ctx.extend(seconds) while it gets on.",
        )


class ExtensionInvalid(StokerError):
    """A run asked for a deadline that cannot be; it keeps the one it has."""

    code = "STOKER_EXTENSION_INVALID"
    terminal = True

    def __init__(self, *, name: str, job_id: int, problem: str) -> None:
        super().__init__(
            cause=f"Job {job_id} ({name}) cannot have its timeout moved: {sentence(problem)}",
            fix='Pass ctx.extend() the seconds from now, for example 30, "5m" or timedelta(minutes=5).',
        )


class JobMaxAttempts(StokerError):
    """A job used up its attempts."""

    code = "STOKER_JOB_MAX_ATTEMPTS"
    terminal = True

    def __init__(self, *, name: str, job_id: int, attempts: int, last_error: str = "") -> None:
        last = f" Last error: {sentence(last_error)}" if last_error else ""
        super().__init__(
            cause=f"Job {job_id} ({name}) failed in all of its {attempts} attempts.{last}",
            fix=f"Repair the cause shown by `stoker jobs show {job_id}`, then `stoker jobs retry {job_id}`.",
        )


class WorkerCrashed(StokerError):
    """The process died while it executed this job."""

    code = "STOKER_WORKER_CRASHED"

    def __init__(
        self, *, name: str, job_id: int, how: str, host: str, pid: int, peak_rss: int = 0, crashes: int = 1
    ) -> None:
        memory = f" at {peak_rss / 2**20:.0f} MiB" if peak_rss else ""
        super().__init__(
            cause=f"Worker process {pid} on {host} died ({how}{memory}) while it ran job {job_id} ({name}), "
            f"crash {crashes} of this job.",
            fix=f"See `stoker jobs show {job_id}`; a SIGKILL without a deadline usually means out of memory.",
        )


class SlotStuck(WorkerCrashed):
    """The process gave no sign of life while it executed this job, used no CPU, and was killed."""

    code = "STOKER_SLOT_STUCK"


class Draining(StokerError):
    """Something was asked of a part that is stopping."""

    code = "STOKER_DRAINING"

    def __init__(self, *, what: str) -> None:
        super().__init__(
            cause=f"{what} is draining and takes nothing new.",
            fix="Try again after it has stopped and been started again.",
        )
