"""Enqueue jobs and ask what became of them: sync and async shells over one core."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Unpack

from msgspec import UNSET

from stoker import registry
from stoker.drivers.base import CancelResult, Driver, Enqueued, JobView, NewJob
from stoker.enqueue_options import Duration, EnqueueOptions, refuse_enqueue
from stoker.errors import DriverUnavailable, JobNotFound, JobUnknown
from stoker.job import Job
from stoker.outcomes import Patience, outcome_of, why_not_retried
from stoker.payloads import safe_text
from stoker.session import Session
from stoker.settings import Settings

Named = str | Job[..., Any]

MAX_REASON: Final = 1000

_sessions = [Session()]


def configure(
    *, database_url: str | None = None, driver: Driver | None = None, settings: Settings | None = None
) -> None:
    """Say where jobs go; without it: the environment, stoker.toml, a running embedded server, in this order.

    A `driver` goes before everything else. Raises SettingsInvalid or DriverNotImplemented for a wrong URL.
    """
    use(Session(database_url=database_url, driver=driver, settings=settings))


def use(session: Session) -> Session:
    """Replace what this process enqueues with; returns what it was."""
    _sessions.append(session)
    return _sessions.pop(0)


def session() -> Session:
    """What this process enqueues with."""
    return _sessions[-1]


def enqueue(job: Named, payload: Any = UNSET, *, conn: Any = None, **options: Unpack[EnqueueOptions]) -> int:
    """Store one job, named or declared, and return its id.

    With `conn` (psycopg, SQLAlchemy or Django) it is part of the caller's transaction: it exists when that commits.
    The id is that of the live job when one holds the idempotency key. An answer lost on the way raises
    DriverUnavailable; then the job may have been stored or not, and an idempotency key makes it safe to try again.
    """
    jobs = [_declared(job).new_job(payload, settings=session().settings, **options)]
    return session().run(_storing(jobs), conn=conn)[0].id


async def enqueue_async(
    job: Named, payload: Any = UNSET, *, conn: Any = None, **options: Unpack[EnqueueOptions]
) -> int:
    """The async twin of `enqueue`."""
    jobs = [_declared(job).new_job(payload, settings=session().settings, **options)]
    return (await session().run_async(_storing(jobs), conn=conn))[0].id


def enqueue_many(
    job: Named, payloads: Iterable[Any], *, conn: Any = None, **options: Unpack[EnqueueOptions]
) -> list[int]:
    """Store many jobs at once, all or none; returns their ids in the order of the payloads."""
    jobs = _new_jobs(job, payloads, options)
    return [stored.id for stored in session().run(_storing(jobs), conn=conn)] if jobs else []


async def enqueue_many_async(
    job: Named, payloads: Iterable[Any], *, conn: Any = None, **options: Unpack[EnqueueOptions]
) -> list[int]:
    """The async twin of `enqueue_many`."""
    jobs = _new_jobs(job, payloads, options)
    return [stored.id for stored in await session().run_async(_storing(jobs), conn=conn)] if jobs else []


def get(job_id: int) -> JobView | None:
    """One job, live or finished, with everything that is stored about it; None if there is none."""
    return session().run(_reading(job_id), repeatable=True)


async def get_async(job_id: int) -> JobView | None:
    """The async twin of `get`."""
    return await session().run_async(_reading(job_id), repeatable=True)


def result(job_id: int) -> Any:
    """What the handler returned; None if it returned nothing or has not ended yet.

    Raises JobNotFound, JobFailed for a dead job, JobCancelled for a cancelled one.
    """
    return outcome_of(job_id, get(job_id))


async def result_async(job_id: int) -> Any:
    """The async twin of `result`."""
    return outcome_of(job_id, await get_async(job_id))


def wait(job_id: int, timeout: Duration | None = None) -> Any:
    """Wait until the job has ended and return or raise what `result` does. Raises WaitTimeout; the job goes on.

    It looks 100 times a second at first and 4 times a second later, and outlasts a restart of the database.
    """
    patience = Patience(job_id=job_id, timeout=timeout, clock=time.monotonic)
    while not patience.ended:
        try:
            patience.saw(get(job_id))
        except DriverUnavailable as error:
            patience.missed(error)
        time.sleep(patience.pause())
    return patience.outcome()


async def wait_async(job_id: int, timeout: Duration | None = None) -> Any:
    """The async twin of `wait`."""
    patience = Patience(job_id=job_id, timeout=timeout, clock=time.monotonic)
    while not patience.ended:
        try:
            patience.saw(await get_async(job_id))
        except DriverUnavailable as error:
            patience.missed(error)
        await asyncio.sleep(patience.pause())
    return patience.outcome()


def cancel(job_id: int, reason: str = "", *, conn: Any = None) -> CancelResult:
    """Cancel a waiting job ("cancelled"), or ask for the end of a running one ("requested").

    Raises JobNotFound, or JobNotCancellable when it has already ended.
    """
    return session().run(_cancelling(job_id, reason), conn=conn)


async def cancel_async(job_id: int, reason: str = "", *, conn: Any = None) -> CancelResult:
    """The async twin of `cancel`."""
    return await session().run_async(_cancelling(job_id, reason), conn=conn)


def retry(job_id: int, *, conn: Any = None) -> int:
    """Put a dead or cancelled job back in line with all its attempts; returns the id of the live job.

    That is another job's if one with the same idempotency key is alive. Raises JobNotFound or JobNotRetryable.
    """
    try:
        return session().run(_retrying(job_id), conn=conn)
    except JobNotFound as error:
        raise why_not_retried(error, job_id, get(job_id)) from None


async def retry_async(job_id: int, *, conn: Any = None) -> int:
    """The async twin of `retry`."""
    try:
        return await session().run_async(_retrying(job_id), conn=conn)
    except JobNotFound as error:
        raise why_not_retried(error, job_id, await get_async(job_id)) from None


def _declared(job: Named) -> Job[..., Any]:
    if isinstance(job, Job):
        return job
    known = registry.current().get(job)
    if known is None:
        raise JobUnknown(name=job, known=registry.current().names())
    return known


def _new_jobs(job: Named, payloads: Iterable[Any], options: EnqueueOptions) -> list[NewJob]:
    declared = _declared(job)
    if isinstance(options.get("idempotency_key"), str):
        raise refuse_enqueue(declared.name)("idempotency_key", "many payloads cannot share one key; pass a function")
    return [declared.new_job(payload, settings=session().settings, **options) for payload in payloads]


# What is done with a driver; the async driver answers the same calls with awaitables.


def _storing(jobs: list[NewJob]) -> Callable[[Any], list[Enqueued]]:
    return lambda driver: driver.enqueue(jobs)


def _reading(job_id: int) -> Callable[[Any], JobView | None]:
    return lambda driver: driver.job(_checked(job_id))


def _cancelling(job_id: int, reason: str) -> Callable[[Any], CancelResult]:
    return lambda driver: driver.cancel(_checked(job_id), safe_text(reason, MAX_REASON))


def _retrying(job_id: int) -> Callable[[Any], int]:
    return lambda driver: driver.retry(_checked(job_id))


def _checked(job_id: int) -> int:
    if isinstance(job_id, bool) or not isinstance(job_id, int) or not 0 <= job_id < 2**63:
        raise JobNotFound(job_id=job_id)
    return job_id
