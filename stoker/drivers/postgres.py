"""The PostgreSQL driver, sync and async: thin shells over the calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, DataError, IntegrityError
from psycopg.errors import ProgramLimitExceeded, StatementTooComplex, UniqueViolation
from psycopg.rows import tuple_row

from stoker.drivers import calls, enqueueing
from stoker.drivers.base import (
    CancelResult,
    Claimed,
    Enqueued,
    Holder,
    JobView,
    NewJob,
    Outcome,
    Settled,
    Settlement,
    State,
)
from stoker.drivers.calls import Call, Keeping
from stoker.errors import JobDuplicate, JobNotCancellable, JobNotFound
from stoker.sql import statement

T = TypeVar("T")

# PostgreSQL's answer to a row it will never take. Everything else may be the connection's or the server's trouble.
REFUSED: Final = (DataError, IntegrityError, ProgramLimitExceeded, StatementTooComplex)


class PostgresDriver:
    """Jobs in PostgreSQL, over the caller's connection: inside its transaction if one is open, never committed here."""

    def __init__(self, conn: Connection[Any], *, keeping: Keeping | None = None) -> None:
        self.conn = conn
        self.keeping = keeping or Keeping()

    def run(self, call: Call[T]) -> T:
        """Send one call and read its answer."""
        return call.read(_cursor(self.conn).execute(call.statement, call.params).fetchall())

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, in order: one statement for one, COPY for many without keys."""
        try:
            if len(jobs) == 1:
                return [_allowed(jobs[0], self.run(enqueueing.enqueue_one(jobs[0], notify=self.keeping.notify)))]
            if enqueueing.can_copy(jobs):
                return self._copy(jobs)
            return self.run(enqueueing.enqueue_batch(jobs, notify=self.keeping.notify))
        except UniqueViolation as error:
            raise _duplicate(error, jobs) from error

    def _copy(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        with self.conn.transaction() if self.conn.autocommit else nullcontext():
            ids = self.run(enqueueing.reserve_numbers(len(jobs)))
            with _cursor(self.conn).copy(statement("copy_jobs")) as copy:
                for job_id, job in zip(ids, jobs, strict=True):
                    copy.write_row(enqueueing.copy_row(job_id, job))
            if self.keeping.notify:
                self.run(enqueueing.notify_ready({job.queue for job in jobs}))
        return [Enqueued(job_id, True) for job_id in ids]

    def claim(self, queue: str, limit: int, holder: Holder) -> list[Claimed]:
        """Mark ready jobs running."""
        return self.run(calls.claim(queue, limit, holder))

    def exchange(
        self, settlements: Sequence[Settlement], queue: str, limit: int, holder: Holder
    ) -> tuple[list[Settled], list[Claimed]]:
        """Settle and claim in one round trip and one transaction. Raises what psycopg raises; then nothing happened."""
        pending: list[Call[Any]] = [*calls.settle(settlements, self.keeping), calls.claim(queue, limit, holder)]
        with self.conn.pipeline():
            cursors = [_cursor(self.conn).execute(call.statement, call.params) for call in pending]
        answers = [call.read(cursor.fetchall()) for call, cursor in zip(pending, cursors, strict=True)]
        claimed: list[Claimed] = answers.pop()
        return [settled for answer in answers for settled in answer], claimed

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how runs ended; a row PostgreSQL refuses becomes dead with that error and stops no other."""
        try:
            return self._settle_all(settlements)
        except REFUSED as error:
            if len(settlements) == 1:
                return self._settle_all([_refused(settlements[0], error)])
            return [settled for one in settlements for settled in self.settle([one])]

    def _settle_all(self, settlements: Sequence[Settlement]) -> list[Settled]:
        pending = calls.settle(settlements, self.keeping)
        with self.conn.transaction() if len(pending) > 1 else nullcontext():
            return [settled for call in pending for settled in self.run(call)]

    def promote_due(self, limit: int) -> int:
        """Make due jobs ready."""
        return len(self.run(calls.promote_due(limit)))

    def cancel(self, job_id: int, reason: str) -> CancelResult:
        """Cancel now or store the request."""
        return _cancelled(job_id, *self.run(calls.cancel(job_id, reason)))

    def cancel_requests(self, job_ids: Sequence[int]) -> dict[int, str]:
        """Requests stored for these jobs."""
        return self.run(calls.cancel_requests(job_ids))

    def retry(self, job_id: int) -> int:
        """Put an ended job back in line."""
        return _found(job_id, self.run(calls.retry(job_id)))

    def job(self, job_id: int) -> JobView | None:
        """One job with its attempts."""
        view = self.run(calls.job(job_id))
        return replace(view, attempts=self.run(calls.attempts(job_id))) if view else None

    def jobs(
        self, *, queue: str | None, name: str | None, state: Sequence[str], limit: int, before: int | None
    ) -> list[JobView]:
        """The newest jobs that match."""
        return self.run(calls.jobs(queue=queue, name=name, state=state, limit=limit, before=before))

    def close(self) -> None:
        """Nothing: the connection is the caller's."""


class AsyncPostgresDriver:
    """The caller's half of PostgresDriver for an async connection; workers settle and claim through the sync one."""

    def __init__(self, conn: AsyncConnection[Any], *, keeping: Keeping | None = None) -> None:
        self.conn = conn
        self.keeping = keeping or Keeping()

    async def run(self, call: Call[T]) -> T:
        """Send one call and read its answer."""
        cursor = await _async_cursor(self.conn).execute(call.statement, call.params)
        return call.read(await cursor.fetchall())

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, in order."""
        try:
            if len(jobs) == 1:
                return [_allowed(jobs[0], await self.run(enqueueing.enqueue_one(jobs[0], notify=self.keeping.notify)))]
            if enqueueing.can_copy(jobs):
                return await self._copy(jobs)
            return await self.run(enqueueing.enqueue_batch(jobs, notify=self.keeping.notify))
        except UniqueViolation as error:
            raise _duplicate(error, jobs) from error

    async def _copy(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        async with self.conn.transaction() if self.conn.autocommit else nullcontext():
            ids = await self.run(enqueueing.reserve_numbers(len(jobs)))
            async with _async_cursor(self.conn).copy(statement("copy_jobs")) as copy:
                for job_id, job in zip(ids, jobs, strict=True):
                    await copy.write_row(enqueueing.copy_row(job_id, job))
            if self.keeping.notify:
                await self.run(enqueueing.notify_ready({job.queue for job in jobs}))
        return [Enqueued(job_id, True) for job_id in ids]

    async def cancel(self, job_id: int, reason: str) -> CancelResult:
        """Cancel now or store the request."""
        return _cancelled(job_id, *await self.run(calls.cancel(job_id, reason)))

    async def retry(self, job_id: int) -> int:
        """Put an ended job back in line."""
        return _found(job_id, await self.run(calls.retry(job_id)))

    async def job(self, job_id: int) -> JobView | None:
        """One job with its attempts."""
        view = await self.run(calls.job(job_id))
        return replace(view, attempts=await self.run(calls.attempts(job_id))) if view else None


# A caller's connection may have another row factory or cursor class; ours are always these.


def _cursor(conn: Connection[Any]) -> Cursor[tuple[Any, ...]]:
    return Cursor(conn, row_factory=tuple_row)


def _async_cursor(conn: AsyncConnection[Any]) -> AsyncCursor[tuple[Any, ...]]:
    return AsyncCursor(conn, row_factory=tuple_row)


def _allowed(job: NewJob, stored: Enqueued) -> Enqueued:
    if job.on_conflict == "error" and not stored.created:
        raise JobDuplicate(name=job.name, key=job.idempotency_key or "", job_id=stored.id, tenant=job.tenant)
    return stored


def _duplicate(error: UniqueViolation, jobs: Sequence[NewJob]) -> JobDuplicate:
    holder = int(error.diag.message_detail or 0)
    named = next((job for job in jobs if job.idempotency_key and job.idempotency_key in str(error)), jobs[0])
    return JobDuplicate(name=named.name, key=named.idempotency_key or "", job_id=holder, tenant=named.tenant)


def _cancelled(job_id: int, result: str, state: str | None) -> CancelResult:
    if result == "not_found":
        raise JobNotFound(job_id=job_id)
    if result == "not_cancellable":
        raise JobNotCancellable(job_id=job_id, state=cast(State, state))
    return cast(CancelResult, result)


def _found(job_id: int, live: int | None) -> int:
    if live is None:
        raise JobNotFound(job_id=job_id)
    return live


def _refused(settlement: Settlement, error: Exception) -> Settlement:
    outcome: Outcome = "dead_lettered"
    message = str(error).replace("\0", "\\0")[:2000]
    return replace(settlement, outcome=outcome, error={"type": type(error).__name__, "message": message}, result=None)
