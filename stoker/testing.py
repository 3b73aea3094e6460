"""For an application's tests: jobs in memory, run inline and judged exactly as a worker does, with a clock to turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random

from stoker import registry, session
from stoker.application import preload_application
from stoker.body import run_async, run_sync
from stoker.drivers.base import Driver
from stoker.drivers.memory import MemoryDriver
from stoker.enqueue_options import Duration
from stoker.inline import InlineWorker, Ran
from stoker.outcomes import seconds_of
from stoker.session import Session
from stoker.settings import Settings

__all__ = ["FakeClock", "MemoryQueue", "Ran", "memory", "run_jobs", "run_jobs_async"]


class FakeClock:
    """A clock that only moves when told to."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: Duration) -> None:
        """Move on by seconds, "5m" or a timedelta."""
        self.now += timedelta(seconds=seconds_of(by))


class MemoryQueue(MemoryDriver):
    """The driver that `memory` yields: nothing becomes due until its `clock` is turned."""

    clock: FakeClock

    def __init__(self, *, clock: FakeClock | None = None) -> None:
        super().__init__(clock=clock or FakeClock())

    def skip_to_next_due(self) -> bool:
        """Turn the clock to the next delayed job; False if there is none."""
        due = self.next_due()
        if due is not None:
            self.clock.now = max(self.clock.now, due)
        return due is not None


@contextmanager
def memory(*, settings: Settings | None = None) -> Iterator[MemoryQueue]:
    """Let everything this process enqueues go to memory for a while; stoker.toml is not read.

        with stoker.testing.memory():
            my_app.sign_up("a@example.org")          # enqueues
            assert [ran.outcome for ran in run_jobs()] == ["completed"]

    `conn=` is ignored: what is enqueued is there at once, whatever becomes of the caller's transaction.
    """
    queue = MemoryQueue()
    before = session.use(Session(driver=queue, settings=settings or Settings()))
    try:
        yield queue
    finally:
        session.use(before)


def run_jobs(
    driver: Driver | None = None, *, queue: str | None = None, until_empty: bool = True, advance_time: bool = False
) -> list[Ran]:
    """Run what is ready, in this thread, and return what happened, in order.

    The driver is the one of `memory` unless given. `until_empty`: also what becomes ready meanwhile; otherwise as many
    runs as jobs are ready now. `advance_time` turns the clock of a MemoryQueue whenever nothing is ready, so that every
    delay and every retry passes. Middleware runs, and each preload hook once, before the first job; start and stop
    hooks do not; timeouts are not enforced.
    """
    worker = _worker(driver, queue, until_empty, advance_time)
    with asyncio.Runner() as runner:
        while run := worker.next_run():
            worker.settle(run, runner.run(run_async(*run)) if run.job.is_async else run_sync(*run))
    return worker.ran


async def run_jobs_async(
    driver: Driver | None = None, *, queue: str | None = None, until_empty: bool = True, advance_time: bool = False
) -> list[Ran]:
    """The twin of `run_jobs` for tests that are coroutines."""
    worker = _worker(driver, queue, until_empty, advance_time)
    while run := worker.next_run():
        worker.settle(run, await run_async(*run) if run.job.is_async else run_sync(*run))
    return worker.ran


def _worker(driver: Driver | None, queue: str | None, until_empty: bool, advance_time: bool) -> InlineWorker:
    chosen = driver or session.current_session().driver
    if chosen is None:
        raise RuntimeError("run_jobs needs a driver: call it inside `with stoker.testing.memory():`, or pass one")
    if advance_time and not isinstance(chosen, MemoryQueue):
        raise RuntimeError("advance_time needs the clock of a MemoryQueue, as stoker.testing.memory() yields it")
    preload_application(registry.current())
    skip_time = chosen.skip_to_next_due if advance_time and isinstance(chosen, MemoryQueue) else lambda: False
    return InlineWorker(
        chosen,
        queue=queue,
        until_empty=until_empty,
        skip_time=skip_time,
        settings=session.current_session().settings,
        rng=Random(0),
    )
