"""A worker without a process: claims, runs and settles one job at a time, where it is called."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from msgspec import Struct

from stoker import registry
from stoker.body import Ended
from stoker.context import Ctx
from stoker.drivers.base import Claimed, Driver, Holder, JobView, Outcome, Settlement
from stoker.job import Job
from stoker.registry import Registry
from stoker.run_signal import Reason, RunSignal
from stoker.settings import Settings
from stoker.verdict import judge, postpone

MOST_RUNS = 10_000
_PAGE = 1000
_HOLDER = Holder(host=1, claim_no=1)


class Ran(Struct, frozen=True, kw_only=True):
    """One run: which job, which attempt, what became of it, and what its body returned or raised."""

    job_id: int
    name: str
    attempt: int
    outcome: Outcome
    value: Any = None
    error: BaseException | None = None


class _Running:
    """A run without a worker: nobody aborts it, and its claim is always a lease."""

    def __init__(self, timeout: float | None, started: float) -> None:
        self.signal = RunSignal()
        self._timeout = timeout
        self._started = started

    def time_left(self) -> float | None:
        return None if self._timeout is None else max(0.0, self._timeout - (time.monotonic() - self._started))

    def lease(self) -> None:
        """It is one."""

    def extend(self, seconds: float) -> None:
        """Have so many seconds from now."""
        self._timeout = time.monotonic() - self._started + seconds


class Run(NamedTuple):
    """What `run_sync` and `run_async` take, in their order."""

    job: Job[..., Any]
    claimed: Claimed
    ctx: Ctx
    registry: Registry


class InlineWorker:
    """Gives out runs and settles them. `skip_time` is asked when nothing is ready; True: now something may be."""

    def __init__(
        self,
        driver: Driver,
        *,
        queue: str | None,
        until_empty: bool,
        skip_time: Callable[[], bool],
        settings: Settings,
        rng: Random,
    ) -> None:
        self._driver = driver
        self._queue = queue
        self._driver.promote_due(_PAGE)
        self._most_runs = MOST_RUNS if until_empty else len(self._ready())
        self._until_empty = until_empty
        self._skip_time = skip_time
        self._settings = settings
        self._rng = rng
        self._started = 0.0
        self._queues: list[str] = []
        self.ran: list[Ran] = []

    def next_run(self) -> Run | None:
        """The next run, or None when the work is done. Raises RuntimeError when it seems endless."""
        while self._may_go_on() and (claimed := self._claim()):
            declared = registry.current()
            job = declared.get(claimed.name)
            if job is None:
                self._write(claimed, postpone(claimed), None)
                continue
            self._started = time.monotonic()
            ctx = Ctx(claimed=claimed, run=_Running(job.timeout, self._started))
            return Run(job, claimed, ctx, declared)
        return None

    def settle(self, run: Run, ended: Ended) -> None:
        """Judge how the run ended and record it."""
        asked = self._driver.cancel_requests([run.claimed.id])
        reasons: tuple[Reason, ...] = ("cancel",) if asked else ()
        elapsed = time.monotonic() - self._started
        settlement = judge(
            run.job, run.claimed, ended, reasons, elapsed=elapsed, rng=self._rng, settings=self._settings
        )
        run.ctx.signal.close()
        if settlement is not None:
            self._write(run.claimed, settlement, ended)

    def _may_go_on(self) -> bool:
        if len(self.ran) < self._most_runs:
            return True
        if self._until_empty:
            raise RuntimeError(
                f"{MOST_RUNS:,} runs and no end: does a job enqueue itself, or does nobody know its name?"
            )
        return False

    def _claim(self) -> Claimed | None:
        while True:
            for queue in self._queues:
                if claimed := self._driver.claim(queue, 1, _HOLDER):
                    return claimed[0]
            self._driver.promote_due(_PAGE)
            self._queues = list(dict.fromkeys(view.queue for view in self._ready()))
            if not self._queues and not self._skip_time():
                return None

    def _ready(self) -> list[JobView]:
        views = self._driver.jobs(queue=self._queue, name=None, state=["ready"], limit=_PAGE, before=None)
        return views[::-1]

    def _write(self, claimed: Claimed, settlement: Settlement, ended: Ended | None) -> None:
        self._driver.settle([settlement])
        self.ran.append(
            Ran(
                job_id=claimed.id,
                name=claimed.name,
                attempt=claimed.attempt,
                outcome=settlement.outcome,
                value=ended.value if ended else None,
                error=ended.error if ended else None,
            )
        )
