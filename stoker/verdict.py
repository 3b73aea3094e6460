"""Pure: how a body ended and why it was asked to end → what is written about the run."""

from __future__ import annotations

from asyncio import CancelledError
from random import Random
from typing import Any, Final

from stoker import logs
from stoker.body import Ended
from stoker.drivers.base import Claimed, Outcome, Settlement
from stoker.errors import Aborted, JobMaxAttempts, JobTimeout
from stoker.job import Job
from stoker.payloads import encode_result, error_record
from stoker.run_signal import Reason, strongest
from stoker.settings import Settings

LONGEST_PUT_OFF: Final = 60.0

OUTCOME_LABEL: Final[dict[Outcome, str]] = {
    "completed": "ok",
    "retried": "failed",
    "dead_lettered": "dead",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
}

_log = logs.get("job")


def judge(
    job: Job[..., Any] | None,
    claimed: Claimed,
    ended: Ended | None,
    reasons: tuple[Reason, ...],
    *,
    elapsed: float,
    rng: Random,
    settings: Settings,
    timeout: float | None = None,
) -> Settlement | None:
    """Decide what becomes of a run; None means write nothing, it is not ours any more.

    `reasons` are those of its signal, `elapsed` its seconds so far; `ended` is None for a job that was not run because
    its name is unknown here; `timeout` is how many seconds it had, if not what its job declares. Precedence: lease
    lost, returned, cancel, timeout, drain, the body's own exception.
    """
    if "lease_lost" in reasons:
        return None
    if job is None or ended is None:
        return postpone(claimed)
    if ended.returned and ended.value is None:
        return Settlement(job_id=claimed.id, run_no=claimed.run_no, outcome="completed", started_ago=elapsed)
    if ended.returned:
        return _settlement(claimed, "completed", elapsed, result=_result(claimed, ended, settings))
    match strongest(reasons):
        case "cancel":
            return _settlement(claimed, "cancelled", elapsed, error=_own_error(ended))
        case "timeout":
            return _timed_out(job, claimed, ended, elapsed, rng, timeout or job.timeout or elapsed)
        case "drain":
            return _settlement(claimed, "interrupted", elapsed, error=_record(ended))
    return _failed(job, claimed, ended, elapsed, rng)


def postpone(claimed: Claimed) -> Settlement:
    """Put off a job whose name is unknown here: 1, 2, 4 … 60 s, never failed, never counted."""
    delay = min(LONGEST_PUT_OFF, 2.0 ** min(max(claimed.put_off, 0), 10))
    return _settlement(claimed, "postponed", 0.0, delay=delay)


def _failed(job: Job[..., Any], claimed: Claimed, ended: Ended, elapsed: float, rng: Random) -> Settlement:
    error = ended.error or RuntimeError("the body ended without a result and without an error")
    if job.retry.is_terminal(error):
        return _settlement(claimed, "dead_lettered", elapsed, error=error_record(error))
    return _again_or_dead(claimed, error_record(error), elapsed, job.retry.delay_after(error, claimed.attempt, rng))


def _timed_out(
    job: Job[..., Any], claimed: Claimed, ended: Ended, elapsed: float, rng: Random, timeout: float
) -> Settlement:
    error = JobTimeout(name=claimed.name, job_id=claimed.id, timeout=timeout)
    error.__cause__ = ended.error
    record = error_record(error)
    if isinstance(error, job.retry.terminal):
        return _settlement(claimed, "dead_lettered", elapsed, error=record)
    return _again_or_dead(claimed, record, elapsed, job.retry.delay(claimed.attempt, rng))


def _again_or_dead(claimed: Claimed, record: dict[str, Any], elapsed: float, delay: float) -> Settlement:
    if claimed.attempt < claimed.max_attempts:
        return _settlement(claimed, "retried", elapsed, delay=delay, error=record)
    return _settlement(claimed, "dead_lettered", elapsed, error={"code": JobMaxAttempts.code, **record})


def _own_error(ended: Ended) -> dict[str, Any] | None:
    # What the worker itself raised into the body says nothing; the driver stores who cancelled and why instead.
    return (
        None if ended.error is None or isinstance(ended.error, Aborted | CancelledError) else error_record(ended.error)
    )


def _record(ended: Ended) -> dict[str, Any] | None:
    return None if ended.error is None else error_record(ended.error)


def _result(claimed: Claimed, ended: Ended, settings: Settings) -> str | None:
    text, problem = encode_result(ended.value, limit=settings.max_result)
    if problem is not None:
        _log.warning("job.result_not_stored", job_id=claimed.id, job=claimed.name, problem=problem)
    return text


def _settlement(
    claimed: Claimed,
    outcome: Outcome,
    elapsed: float,
    *,
    delay: float = 0.0,
    error: dict[str, Any] | None = None,
    result: str | None = None,
) -> Settlement:
    return Settlement(
        job_id=claimed.id,
        run_no=claimed.run_no,
        outcome=outcome,
        delay=delay,
        error=error,
        result=result,
        started_ago=elapsed,
    )
