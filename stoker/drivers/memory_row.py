"""One job as the memory driver keeps it."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any, cast

import orjson
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from stoker.drivers.base import Holder, JobView, NewJob, Settlement, State
from stoker.errors import Aborted

KEEP_ATTEMPTS = 50


class Row(Struct, kw_only=True):
    """One job, live or finished."""

    id: int
    pos: int
    name: str
    queue: str
    payload: str
    priority: int
    max_attempts: int
    idempotency_key: str | None
    tenant: str | None
    created_at: datetime
    state: State = "ready"
    run_at: datetime | None = None
    run_no: int = 0
    attempt: int = 0
    crashes: int = 0
    lost: int = 0
    put_off: int = 0
    suspect: bool = False
    holder: Holder | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: dict[str, Any] | None = None
    result: str | None = None
    attempts: list[dict[str, Any]] = field(default_factory=list)


def note_attempt(row: Row, given: Settlement, now: datetime) -> None:
    """Keep what is known about a run that did not succeed."""
    if given.error is None or given.outcome in ("completed", "handed_back"):
        return
    note = {
        "run_no": row.run_no,
        "attempt": row.attempt,
        "outcome": given.outcome,
        "started_at": now - timedelta(seconds=given.started_ago),
        "ended_at": now,
        "host": row.holder.host if row.holder else None,
        "error": given.error,
    }
    row.attempts = [*row.attempts, note][-KEEP_ATTEMPTS:]


def stored(job: NewJob) -> dict[str, Any]:
    """What a row takes from a job to enqueue, new or in place of another."""
    names = ("name", "queue", "payload", "priority", "max_attempts", "idempotency_key", "tenant")
    return {name: getattr(job, name) for name in names}


def due_time(row: Row) -> datetime:
    """When a delayed job is due."""
    return cast(datetime, row.run_at)


def cancelled_by(reason: str) -> dict[str, Any]:
    """The error of a job that somebody cancelled."""
    return {"type": "Cancelled", "message": reason, "code": Aborted.code}


def in_full(given: Settlement, reason: str) -> Settlement:
    """An error of a cancel that has no type adds to who asked for it."""
    if given.outcome != "cancelled" or given.error is None or "type" in given.error:
        return given
    return replace(given, error={**cancelled_by(reason), **given.error})


def without_stack(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the row says; the stacks of its process are kept with the attempt alone."""
    return error and {key: value for key, value in error.items() if key != "stack"}


def view_of(row: Row) -> JobView:
    """The job as people see it."""
    facts = asdict(copy.deepcopy(row))
    facts["payload"] = orjson.loads(row.payload)
    facts["result"] = None if row.result is None else orjson.loads(row.result)
    return JobView(**{name: facts[name] for name in JobView.__struct_fields__ if name in facts})
