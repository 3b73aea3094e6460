"""Errors of runs whose process was ended for its memory."""

from stoker.errors.base import StokerError
from stoker.errors.runs import WorkerCrashed


class MemoryLimitExceeded(WorkerCrashed):
    """The process used more memory than `kill_rss` allows while it executed this job, and was killed."""

    def __init__(
        self, *, name: str, job_id: int, limit: int, host: str, pid: int, peak_rss: int = 0, crashes: int = 1
    ) -> None:
        seen = f" of {_mib(peak_rss)}" if peak_rss else ""
        StokerError.__init__(
            self,
            cause=f"Worker process {pid} on {host} was killed while it ran job {job_id} ({name}): its memory{seen} was "
            f"above the limit of {_mib(limit)} (kill_rss), crash {crashes} of this job.",
            fix=f"Have {name!r} hold less at a time, or raise kill_rss of its queue in stoker.toml.",
        )


class OutOfMemory(WorkerCrashed):
    """The kernel ended the process while it executed this job, because machine or container had no memory left."""

    def __init__(self, *, name: str, job_id: int, host: str, pid: int, peak_rss: int = 0, crashes: int = 1) -> None:
        seen = f" at {_mib(peak_rss)}" if peak_rss else ""
        StokerError.__init__(
            self,
            cause=f"Worker process {pid} on {host} was taken{seen} by the kernel's OOM killer while it ran job "
            f"{job_id} ({name}): there was no memory left, crash {crashes} of this job.",
            fix="Give the machine or container more memory or the queue fewer processes, or set its kill_rss in "
            "stoker.toml: then a job that needs too much is stopped before the kernel chooses.",
        )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
