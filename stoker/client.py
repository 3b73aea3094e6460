"""Enqueue jobs and ask what became of them: sync and async shells over one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Unpack

from msgspec import UNSET

from stoker import registry
from stoker.drivers.base import CancelResult, JobView
from stoker.enqueue_options import Duration, EnqueueOptions
from stoker.errors import DriverUnavailable, JobNotFound, JobUnknown
from stoker.job import Job
from stoker.outcomes import Patience, outcome_of, why_not_retried
from stoker.payloads import safe_text
from stoker.session import current_session

Named = str | Job[..., Any]

MAX_REASON: Final = 1000


def enqueue(job: Named, payload: Any = UNSET, *, conn: Any = None, **options: Unpack[EnqueueOptions]) -> int:
    """Store one job, named or declared, and return its id; see Job.enqueue. Raises JobUnknown."""
    return _declared(job).enqueue(payload, conn=conn, **options)


async def enqueue_async(
    job: Named, payload: Any = UNSET, *, conn: Any = None, **options: Unpack[EnqueueOptions]
) -> int:
    """The async twin of `enqueue`."""
    return await _declared(job).enqueue_async(payload, conn=conn, **options)


def enqueue_many(
    job: Named, payloads: Iterable[Any], *, conn: Any = None, **options: Unpack[EnqueueOptions]
) -> list[int]:
    """Store many jobs at once, all or none; returns their ids in the order of the payloads."""
    return _declared(job).enqueue_many(payloads, conn=conn, **options)


async def enqueue_many_async(
    job: Named, payloads: Iterable[Any], *, conn: Any = None, **options: Unpack[EnqueueOptions]
) -> list[int]:
    """The async twin of `enqueue_many`."""
    return await _declared(job).enqueue_many_async(payloads, conn=conn, **options)


def get(job_id: int) -> JobView | None:
    """One job, live or finished, with everything that is stored about it; None if there is none."""
    return current_session().run(_reading(job_id), repeatable=True)


async def get_async(job_id: int) -> JobView | None:
    """The async twin of `get`."""
    return await current_session().run_async(_reading(job_id), repeatable=True)


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
    import asyncio

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
    return current_session().run(_cancelling(job_id, reason), conn=conn)


async def cancel_async(job_id: int, reason: str = "", *, conn: Any = None) -> CancelResult:
    """The async twin of `cancel`."""
    return await current_session().run_async(_cancelling(job_id, reason), conn=conn)


def retry(job_id: int, *, conn: Any = None) -> int:
    """Put a dead or cancelled job back in line with all its attempts; returns the id of the live job.

    That is another job's if one with the same idempotency key is alive. Raises JobNotFound or JobNotRetryable.
    """
    try:
        return current_session().run(_retrying(job_id), conn=conn)
    except JobNotFound as error:
        raise why_not_retried(error, job_id, get(job_id)) from None


async def retry_async(job_id: int, *, conn: Any = None) -> int:
    """The async twin of `retry`."""
    try:
        return await current_session().run_async(_retrying(job_id), conn=conn)
    except JobNotFound as error:
        raise why_not_retried(error, job_id, await get_async(job_id)) from None


def _declared(job: Named) -> Job[..., Any]:
    if isinstance(job, Job):
        return job
    known = registry.current().get(job)
    if known is None:
        raise JobUnknown(name=job, known=registry.current().names())
    return known


# What is done with a driver; the async driver answers the same calls with awaitables.


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
