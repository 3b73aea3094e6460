"""What is sent to PostgreSQL and how the answer is read: one core for the sync and the async driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, LiteralString, TypeVar

from msgspec import Struct, convert

from stoker.drivers.base import JobView
from stoker.settings import Settings
from stoker.sql import statement

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]

_JOB_FIELDS = (
    *("id", "name", "queue", "state", "attempt", "max_attempts", "priority", "run_at", "created_at", "started_at"),
    *("finished_at", "tenant", "idempotency_key", "run_no", "crashes", "lost", "payload", "error", "result"),
    "suspect",
)
_JSON_FIELDS = ("payload", "error", "result")


class Call(Struct, Generic[T], frozen=True):
    """One statement with its parameters; `read` turns the rows into the answer."""

    statement: LiteralString
    params: dict[str, Any]
    read: Callable[[Rows], T]


class Keeping(Struct, frozen=True, kw_only=True):
    """Which finished rows are kept, and whether wake-ups are sent."""

    done: bool = True
    dead: bool = True
    cancelled: bool = True
    notify: bool = True

    @classmethod
    def of(cls, settings: Settings) -> Keeping:
        """As the settings say: a retention of 0 keeps nothing."""
        keep = settings.retention
        return cls(done=keep.done > 0, dead=keep.dead > 0, cancelled=keep.cancelled > 0, notify=settings.notify)


def promote_due(limit: int) -> Call[list[str]]:
    """Make due jobs ready; the answer has the queue of each."""
    return Call(statement("promote_due"), {"limit": limit}, lambda rows: [row[0] for row in rows])


def cancel(job_id: int, reason: str, *, notify: bool) -> Call[tuple[str, str | None]]:
    """Cancel now or store the request: (result, state)."""
    params = {"id": job_id, "reason": reason, "notify": notify}
    return Call(statement("cancel_job"), params, lambda rows: (rows[0][0], rows[0][1]))


def cancel_requests(job_ids: Sequence[int]) -> Call[dict[int, str]]:
    """Requests stored for these jobs."""
    return Call(statement("read_cancels"), {"ids": list(job_ids)}, lambda rows: {row[0]: row[1] for row in rows})


def retry(job_id: int, *, notify: bool) -> Call[int | None]:
    """Put an ended job back in line; None when there is none."""
    params = {"id": job_id, "notify": notify}
    return Call(statement("retry_job"), params, lambda rows: rows[0][0] if rows else None)


def job(job_id: int) -> Call[JobView | None]:
    """One job, without its attempts."""
    return Call(statement("read_job"), {"id": job_id}, lambda rows: _view(rows[0]) if rows else None)


def attempts(job_id: int) -> Call[list[dict[str, Any]]]:
    """The attempts of a job that did not succeed."""
    fields = ("run_no", "attempt", "outcome", "started_at", "ended_at", "host", "error")
    return Call(
        statement("read_attempts"),
        {"id": job_id},
        lambda rows: [dict(zip(fields, (*row[:-1], _readable(row[-1])), strict=True)) for row in rows],
    )


def jobs(
    *, queue: str | None, name: str | None, state: Sequence[str], limit: int, before: int | None
) -> Call[list[JobView]]:
    """The newest jobs that match."""
    params = {"queue": queue, "name": name, "states": list(state) or None, "limit": limit, "before": before}
    return Call(statement("list_jobs"), params, lambda rows: [_view(row) for row in rows])


def _view(row: tuple[Any, ...]) -> JobView:
    fields = dict(zip(_JOB_FIELDS, row, strict=True))
    return convert(fields | {name: _readable(fields[name]) for name in _JSON_FIELDS}, JobView)


def _readable(text: str | None) -> Any:
    """JSON as Python reads it; what other languages nested too deeply or wrote with too many digits stays text."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
