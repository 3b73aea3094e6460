"""What jobs really did, as lines of a file: cheaper than the shortest job, and there whatever ends the process."""

import os
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_VARIABLE = "TEST_EFFECTS"
_descriptor: list[int] = []


class Effect(NamedTuple):
    """One line; `at` is CLOCK_MONOTONIC ns, which all processes share."""

    job_id: int
    attempt: int
    pid: int
    at: int
    what: str


def note(job_id: int, attempt: int, what: str) -> None:
    """Write down that this happened (in a job)."""
    if not _descriptor:
        _descriptor.append(os.open(os.environ[_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC))
    os.write(_descriptor[0], f"{job_id} {attempt} {os.getpid()} {time.monotonic_ns()} {what}\n".encode())


def released(job_id: int) -> bool:
    """Whether the test lets this job end (in a job)."""
    return Path(f"{os.environ[_VARIABLE]}.{job_id}").exists()


class Effects:
    """The test's end of the file; `env` is for the supervisor."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "effects"
        self.path.touch()
        self.env = {_VARIABLE: str(self.path)}
        self._from = 0

    def forget(self) -> None:
        """Leave out everything so far."""
        self._from = self.path.stat().st_size

    def all(self) -> list[Effect]:
        """In the order of their writing."""
        with self.path.open() as file:
            file.seek(self._from)
            # The last one may be seen before its end is.
            lines = file.read().split("\n")[:-1]
        return [Effect(*map(int, line.split(" ", 4)[:4]), line.split(" ", 4)[4]) for line in lines]  # type: ignore[arg-type]

    def times(self, what: str, job_ids: Collection[int] | None = None) -> Counter[int]:
        """How often each job did this."""
        wanted = None if job_ids is None else set(job_ids)
        return Counter(
            one.job_id for one in self.all() if one.what == what and (wanted is None or one.job_id in wanted)
        )

    def said(self, *job_ids: int) -> Counter[str]:
        """What these jobs wrote down, but for their starts and ends."""
        wanted = set(job_ids)
        return Counter(one.what for one in self.all() if one.job_id in wanted and one.what not in ("start", "end"))

    def pids(self, job_id: int) -> list[int]:
        """The processes that ran a job, in order."""
        return [one.pid for one in self.all() if one.job_id == job_id and one.what == "start"]

    def release(self, *job_ids: int) -> None:
        """Let jobs end that wait for it."""
        for job_id in job_ids:
            Path(f"{self.path}.{job_id}").touch()
