"""What an enqueue sends to PostgreSQL and how the answer is read: one core for the sync and the async driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.drivers.base import Enqueued, NewJob
from stoker.drivers.calls import Call
from stoker.sql import statement


def enqueue_one(job: NewJob, *, notify: bool) -> Call[Enqueued]:
    """Store one job."""
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
        # Its caller raises what "error" asks for: an error here would spoil the transaction it may be part of.
        "on_conflict": "dedupe" if job.on_conflict == "error" else job.on_conflict,
        "notify": notify,
    }
    return Call(statement("enqueue_one"), params, lambda rows: Enqueued(*rows[0]))


def enqueue_batch(jobs: Sequence[NewJob], *, notify: bool) -> Call[list[Enqueued]]:
    """Store many jobs, keyed or delayed ones among them."""
    params = {
        "names": [job.name for job in jobs],
        "payloads": [job.payload for job in jobs],
        "queues": [job.queue for job in jobs],
        "priorities": [job.priority for job in jobs],
        "run_ats": [job.run_at for job in jobs],
        "delays": [job.delay for job in jobs],
        "max_attempts": [job.max_attempts for job in jobs],
        "keys": [job.idempotency_key for job in jobs],
        "tenants": [job.tenant for job in jobs],
        "on_conflicts": [job.on_conflict for job in jobs],
        "notify": notify,
    }
    return Call(statement("enqueue_batch"), params, lambda rows: [Enqueued(*row) for row in rows])


def can_copy(jobs: Sequence[NewJob]) -> bool:
    """True when COPY will do: nothing to look up and no clock to ask."""
    return all(job.idempotency_key is None and job.run_at is None and job.delay is None for job in jobs)


def reserve_numbers(count: int) -> Call[list[int]]:
    """Ids for jobs that are about to be copied in."""
    return Call(statement("reserve_numbers"), {"count": count}, lambda rows: [row[0] for row in rows])


def copy_row(job_id: int, job: NewJob) -> tuple[Any, ...]:
    """One line for copy_jobs.sql."""
    return (
        *(job_id, job_id, job.queue, job.name, "ready", job.priority, None),
        *(job.max_attempts, job.tenant, job.payload),
    )


def notify_ready(queues: set[str]) -> Call[None]:
    """Tell the keepers that these queues have work."""
    return Call(statement("notify_ready"), {"queues": sorted(queues)}, lambda _: None)
