"""The PostgreSQL driver, sync and async: thin shells over the calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace
from psycopg import AsyncConnection, Connection, DataError, IntegrityError
from psycopg.errors import ProgramLimitExceeded, StatementTooComplex

from stoker.drivers import calls, holding, storing
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
from stoker.drivers.sending import cursor, send, send_async
from stoker.errors import JobNotCancellable, JobNotFound

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
        return send(self.conn, call)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, in order: one statement for one or for keyed ones, COPY for many."""
        return storing.store(self.conn, jobs, notify=self.keeping.notify)

    def claim(self, queue: str, limit: int, holder: Holder) -> list[Claimed]:
        """Mark ready jobs running."""
        return self.run(holding.claim(queue, limit, holder))

    def pipelined(self, sent: Sequence[Call[Any]]) -> list[Any]:
        """Send several calls in one round trip and read their answers. Raises what psycopg raises.

        What is not between `begin` and `commit` is one transaction.
        """
        with self.conn.pipeline():
            answers = [cursor(self.conn).execute(call.statement, call.params) for call in sent]
        return [
            call.read(answer.fetchall() if answer.description else ())
            for call, answer in zip(sent, answers, strict=True)
        ]

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how runs ended; a row PostgreSQL refuses becomes dead with that error and stops no other."""
        try:
            return self._settle_all(settlements)
        except REFUSED as error:
            if len(settlements) == 1:
                return self._settle_all([_refused(settlements[0], error)])
            return [settled for one in settlements for settled in self.settle([one])]

    def _settle_all(self, settlements: Sequence[Settlement]) -> list[Settled]:
        pending = holding.settle(settlements, self.keeping)
        with self.conn.transaction() if len(pending) > 1 else nullcontext():
            return [settled for call in pending for settled in self.run(call)]

    def promote_due(self, limit: int) -> int:
        """Make due jobs ready."""
        return len(self.run(calls.promote_due(limit)))

    def cancel(self, job_id: int, reason: str) -> CancelResult:
        """Cancel now or store the request."""
        return _cancelled(job_id, *self.run(calls.cancel(job_id, reason, notify=self.keeping.notify)))

    def cancel_requests(self, job_ids: Sequence[int]) -> dict[int, str]:
        """Requests stored for these jobs."""
        return self.run(calls.cancel_requests(job_ids))

    def retry(self, job_id: int) -> int:
        """Put an ended job back in line."""
        return _found(job_id, self.run(calls.retry(job_id, notify=self.keeping.notify)))

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
        return await send_async(self.conn, call)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, in order."""
        return await storing.store_async(self.conn, jobs, notify=self.keeping.notify)

    async def cancel(self, job_id: int, reason: str) -> CancelResult:
        """Cancel now or store the request."""
        return _cancelled(job_id, *await self.run(calls.cancel(job_id, reason, notify=self.keeping.notify)))

    async def retry(self, job_id: int) -> int:
        """Put an ended job back in line."""
        return _found(job_id, await self.run(calls.retry(job_id, notify=self.keeping.notify)))

    async def job(self, job_id: int) -> JobView | None:
        """One job with its attempts."""
        view = await self.run(calls.job(job_id))
        return replace(view, attempts=await self.run(calls.attempts(job_id))) if view else None


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
