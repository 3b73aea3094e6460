"""What an enqueue sends to PostgreSQL and how the answer is read: one core for the sync and the async driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stoker.drivers.base import Enqueued, NewJob
from stoker.drivers.calls import Call, Rows
from stoker.errors import JobDuplicate
from stoker.sql import statement


def enqueue_one(job: NewJob, *, notify: bool, alone: bool) -> Call[Enqueued]:
    """Store one job, `alone` in a transaction of its own. Its reader raises JobDuplicate."""
    params = {
        "name": job.name,
        "payload": job.payload,
        "queue": job.queue,
        "priority": job.priority,
        "run_at": job.run_at,
        "delay": job.delay,
        "max_attempts": job.max_attempts,
        "idempotency_key": job.idempotency_key,
        "tenant": job.tenant,
        # The reader raises what "error" asks for: an error there would spoil the transaction it may be part of.
        "on_conflict": "dedupe" if job.on_conflict == "error" else job.on_conflict,
        "notify": notify,
    }
    return Call(statement("enqueue_alone" if alone else "enqueue_one"), params, lambda rows: _read_one(job, rows))


def _read_one(job: NewJob, rows: Rows) -> Enqueued:
    stored = Enqueued(*rows[0])
    if job.on_conflict == "error" and not stored.created:
        raise _duplicate(job, stored.id)
    return stored


def enqueue_batch(jobs: Sequence[NewJob], *, notify: bool) -> Call[list[Enqueued]]:
    """Store many jobs of any kind, all or none. Its reader raises JobDuplicate; then none is stored."""
    sent, places = _merged(jobs)
    params = {
        "names": _array(job.name for job in sent),
        "payloads": _array(job.payload for job in sent),
        "queues": _array(job.queue for job in sent),
        "priorities": _array(str(job.priority) for job in sent),
        "run_ats": _array(None if job.run_at is None else job.run_at.isoformat() for job in sent),
        "delays": _array(None if job.delay is None else str(job.delay) for job in sent),
        "max_attempts": _array(str(job.max_attempts) for job in sent),
        "keys": _array(job.idempotency_key for job in sent),
        "tenants": _array(job.tenant for job in sent),
        "on_conflicts": _array(job.on_conflict for job in sent),
        "notify": notify,
    }
    return Call(statement("enqueue_batch"), params, lambda rows: _read_batch(sent, places, rows))


def _merged(jobs: Sequence[NewJob]) -> tuple[list[NewJob], list[int]]:
    """What is sent, and where in it each job is: of the jobs with one key only one, the last where they replace."""
    sent: list[NewJob] = []
    places: list[int] = []
    first: dict[tuple[Any, ...], int] = {}
    for job in jobs:
        place = len(sent)
        if job.idempotency_key is not None and job.on_conflict != "error":
            place = first.setdefault((job.name, job.tenant or "", job.idempotency_key, job.on_conflict), place)
        if place == len(sent):
            sent.append(job)
        elif job.on_conflict == "replace":
            sent[place] = job
        places.append(place)
    return sent, places


def _read_batch(sent: Sequence[NewJob], places: Sequence[int], rows: Rows) -> list[Enqueued]:
    for job, (job_id, created) in zip(sent, rows, strict=True):
        if job.on_conflict == "error" and not created and job_id is not None:
            raise _duplicate(job, job_id)
    new = [created for _, created in rows]
    stored = []
    for place in places:
        stored.append(Enqueued(rows[place][0], new[place]))
        new[place] = False
    return stored


def reserve_numbers(count: int) -> Call[tuple[list[int], float]]:
    """Ids for jobs that are about to be copied in, in order, and the time on the database's clock."""
    return Call(statement("reserve_numbers"), {"count": count}, _read_numbers)


def _read_numbers(rows: Rows) -> tuple[list[int], float]:
    return [number for low, high, _ in rows for number in range(low, high + 1)], rows[0][2]


def notify_ready(queues: Iterable[str]) -> Call[None]:
    """Tell the keepers that these queues have work."""
    return Call(statement("notify_ready"), {"queues": sorted(queues), "due": False}, lambda _: None)


def notify_all(jobs: Sequence[NewJob]) -> Call[None]:
    """Tell the keepers what these jobs are to them: some work now, the others a time to wait for."""
    queues = {job.queue for job in jobs if not job.delay}
    due = any(job.delay or job.run_at for job in jobs)
    return Call(statement("notify_ready"), {"queues": sorted(queues), "due": due}, lambda _: None)


def _duplicate(job: NewJob, holder: int) -> JobDuplicate:
    return JobDuplicate(name=job.name, key=job.idempotency_key or "", job_id=holder, tenant=job.tenant)


def _array(values: Iterable[str | None]) -> str:
    # Written here because psycopg looks at every element of a list with Python.
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
