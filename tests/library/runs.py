"""Runs for tests: a claimed job and a context without a worker."""

from typing import Any

import orjson

from stoker import Ctx, Job, RunSignal
from stoker.body import Ended, Gate, NoGate, run_sync
from stoker.drivers.base import Claimed
from stoker.registry import current


class _Running:
    def __init__(self, signal: RunSignal) -> None:
        self.signal = signal

    def time_left(self) -> float | None:
        return 12.5

    def lease(self) -> None:
        """It is one."""

    def extend(self, seconds: float) -> None:
        """It ends when it ends."""


def claimed(
    payload: Any = None, *, name: str = "work", attempt: int = 1, max_attempts: int = 20, put_off: int = 0
) -> Claimed:
    """A job as a claim would return it."""
    return Claimed(
        id=41,
        run_no=7,
        queue="default",
        name=name,
        payload=orjson.dumps(payload or {}).decode(),
        attempt=attempt,
        max_attempts=max_attempts,
        priority=0,
        tenant="acme",
        crashes=0,
        put_off=put_off,
    )


def context(run: Claimed | None = None, signal: RunSignal | None = None) -> Ctx:
    """What a handler would get."""
    return Ctx(claimed=run or claimed(), run=_Running(signal or RunSignal()))


def run(job: Job[..., Any], payload: Any = None, *, gate: Gate | None = None) -> Ended:
    """Run a plain handler once."""
    this = claimed(payload, name=job.name)
    return run_sync(job, this, context(this), current(), gate=gate or NoGate())
