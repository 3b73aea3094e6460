"""Stores jobs over a psycopg connection, in as few round trips and as little time under a lock as can be.

A commit that notifies holds one lock of the whole cluster until it is on disk. So what commits by itself, in autocommit
mode and outside of a transaction, notifies afterwards; within the caller's transaction the notification is part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.pq import PipelineStatus, TransactionStatus

from stoker.drivers import copying, enqueueing
from stoker.drivers.base import Enqueued, NewJob
from stoker.drivers.sending import async_cursor, cursor, send, send_async
from stoker.sql import statement


def store(conn: Connection[Any], jobs: Sequence[NewJob], *, notify: bool) -> list[Enqueued]:
    """Store jobs, in order, all or none. Raises JobDuplicate; the caller's transaction stays usable then."""
    alone = _commits_by_itself(conn)
    if len(jobs) == 1:
        return [send(conn, enqueueing.enqueue_one(jobs[0], notify=notify, alone=alone))]
    if not _can_copy(conn, jobs):
        stored = send(conn, enqueueing.enqueue_batch(jobs, notify=notify and not alone))
    else:
        stored = _copy(conn, jobs)
        if notify and not alone:
            send(conn, enqueueing.notify_all(jobs))
    if notify and alone:
        # They are stored: what is not heard now is found by polling.
        with suppress(OperationalError):
            send(conn, enqueueing.notify_all(jobs))
    return stored


def _copy(conn: Connection[Any], jobs: Sequence[NewJob]) -> list[Enqueued]:
    ids, now = send(conn, enqueueing.reserve_numbers(len(jobs)))
    with cursor(conn).copy(statement("copy_jobs")) as copy:
        for block in copying.lines(jobs, ids, now):
            copy.write(block)
    return [Enqueued(job_id, True) for job_id in ids]


async def store_async(conn: AsyncConnection[Any], jobs: Sequence[NewJob], *, notify: bool) -> list[Enqueued]:
    """The async twin of `store`."""
    alone = _commits_by_itself(conn)
    if len(jobs) == 1:
        return [await send_async(conn, enqueueing.enqueue_one(jobs[0], notify=notify, alone=alone))]
    if not _can_copy(conn, jobs):
        stored = await send_async(conn, enqueueing.enqueue_batch(jobs, notify=notify and not alone))
    else:
        stored = await _copy_async(conn, jobs)
        if notify and not alone:
            await send_async(conn, enqueueing.notify_all(jobs))
    if notify and alone:
        with suppress(OperationalError):
            await send_async(conn, enqueueing.notify_all(jobs))
    return stored


async def _copy_async(conn: AsyncConnection[Any], jobs: Sequence[NewJob]) -> list[Enqueued]:
    ids, now = await send_async(conn, enqueueing.reserve_numbers(len(jobs)))
    async with async_cursor(conn).copy(statement("copy_jobs")) as copy:
        for block in copying.lines(jobs, ids, now):
            await copy.write(block)
    return [Enqueued(job_id, True) for job_id in ids]


def _commits_by_itself(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    idle = conn.pgconn.transaction_status == TransactionStatus.IDLE
    return conn.autocommit and idle and not _is_pipelined(conn)


def _can_copy(conn: Connection[Any] | AsyncConnection[Any], jobs: Sequence[NewJob]) -> bool:
    return copying.can_copy(jobs) and not _is_pipelined(conn)


def _is_pipelined(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    return conn.pgconn.pipeline_status != PipelineStatus.OFF
