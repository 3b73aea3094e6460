"""Jobs without keys as the lines of a COPY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from stoker.drivers.base import NewJob

# Below, the one statement for jobs of any kind is done sooner.
LEAST: Final = 50
_LINES: Final = 500


def can_copy(jobs: Sequence[NewJob]) -> bool:
    """True when COPY will do: many, and nothing to look up."""
    return len(jobs) >= LEAST and all(job.idempotency_key is None for job in jobs)


def lines(jobs: Sequence[NewJob], ids: Sequence[int], now: float) -> Iterator[str]:
    """Blocks of lines for copy_jobs.sql. `now` is the time on the database's clock: it decides what is delayed."""
    for start in range(0, len(jobs), _LINES):
        block = slice(start, start + _LINES)
        yield "".join([_line(job, number, now) for job, number in zip(jobs[block], ids[block], strict=True)])


def _line(job: NewJob, number: int, now: float) -> str:
    due = None if job.run_at is None and job.delay is None else _due(job, now)
    state, run_at = ("ready", "\\N") if due is None else ("delayed", due)
    tenant = "\\N" if job.tenant is None else _escaped(job.tenant)
    return (
        f"{number}\t{number}\t{job.queue}\t{_escaped(job.name)}\t{state}\t{job.priority}\t{run_at}"
        f"\t{job.max_attempts}\t{tenant}\t{_escaped(job.payload)}\n"
    )


def _due(job: NewJob, now: float) -> str | None:
    """When the job will be due, None when it is."""
    if job.run_at is not None:
        return job.run_at.isoformat() if job.run_at.timestamp() > now else None
    return datetime.fromtimestamp(now + job.delay, UTC).isoformat() if job.delay else None


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\")
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
