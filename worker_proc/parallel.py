"""Many lanes: sync handlers in threads, async ones on one event loop; the main thread claims and settles for them."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stoker import logs
from stoker.body import Ended, run_async, run_sync
from stoker.context import Ctx
from stoker.drivers.base import Claimed, Holder
from stoker.errors import FAILED
from stoker.job import Job
from stoker.registry import Registry
from stoker.run_signal import Reason
from worker_proc.control import Control
from worker_proc.desk import Claims, Desk
from worker_proc.runs import Run, Runs

log = logs.get("worker")


class ParallelLanes:
    """Executes up to `lanes` bodies at once. A body in a thread can be told to end and be killed, not unwound."""

    def __init__(self, control: Control, *, desk: Desk, runs: Runs, registry: Registry, lanes: int) -> None:
        self._control = control
        self._desk = desk
        self._runs = runs
        self._registry = registry
        self._free = deque(range(lanes))
        self._lanes = lanes
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(max_workers=lanes, thread_name_prefix="stoker-lane")
        self._tasks: set[asyncio.Task[Ended]] = set()

    def start(self) -> None:
        """Start the event loop's thread."""
        # An ordinary thread: subprocesses of async handlers inherit its signal mask.
        threading.Thread(target=self._loop.run_forever, name="stoker-loop", daemon=True).start()

    def room(self) -> int:
        """How many lanes are free."""
        return len(self._free)

    def take(self, claims: Claims, holder: Holder) -> None:
        """Begin every job in a lane of its own."""
        for one in claims.jobs:
            lane = self._free.popleft()
            job = self._registry.get(one.name)
            if job is None:
                run = self._runs.begin(one, None, lane=lane, holder=holder, unwind=_told_only)
                self._end(run, None)
            elif job.is_async:
                self._begin_async(job, one, lane, holder)
            else:
                run = self._runs.begin(one, job, lane=lane, holder=holder, unwind=_told_only)
                self._threads.submit(self._run_in_thread, run, job)

    def lease(self, run: Run) -> None:
        """Every job is leased here."""

    def by_lock(self) -> bool:
        """Never: one transaction cannot be many jobs' that end at any time."""
        return False

    @property
    def reserved(self) -> Sequence[Claimed]:
        """Nothing: every claimed job has a lane."""
        return ()

    def let_go(self) -> None:
        """Nothing is claimed and not started."""

    def busy(self) -> bool:
        """True while a body executes or its ending is not yet with the desk."""
        return len(self._free) < self._lanes

    def close(self) -> None:
        """Stop the loop. Threads are idle by then, or the process is about to end without them."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._threads.shutdown(wait=False)

    def run_coroutine(self, coroutine: Any) -> Any:
        """Run an async hook on the loop that async handlers use."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def look(self, now: int) -> int:
        """Nothing is ever reserved here (control thread)."""
        return now + 1_000_000_000

    def _begin_async(self, job: Job[..., Any], claimed: Claimed, lane: int, holder: Holder) -> None:
        mine: list[asyncio.Task[Ended]] = []

        def cancel(run: Run, reason: Reason) -> None:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in mine])

        def begin() -> None:
            ctx = Ctx(claimed=claimed, run=run)
            task = self._loop.create_task(run_async(job, claimed, ctx, self._registry))
            mine.append(task)
            self._tasks.add(task)
            task.add_done_callback(lambda task: self._end_task(run, task))

        run = self._runs.begin(claimed, job, lane=lane, holder=holder, unwind=cancel)
        self._loop.call_soon_threadsafe(begin)

    def _run_in_thread(self, run: Run, job: Job[..., Any]) -> None:
        self._end(run, run_sync(job, run.claimed, Ctx(claimed=run.claimed, run=run), self._registry))

    def _end_task(self, run: Run, task: asyncio.Task[Ended]) -> None:
        self._tasks.discard(task)
        # A task cancelled before its first step never entered the body, which could not say so itself.
        self._end(run, Ended(False, None, asyncio.CancelledError()) if task.cancelled() else task.result())

    def _end(self, run: Run, ended: Ended | None) -> None:
        try:
            self._runs.end(run, ended, keep=self._desk.add)
        except BaseException as error:  # noqa: BLE001 - pool and loop would swallow it
            # The lane would stay taken and its job running for ever: better a visible death, blamed on that job.
            log.error("worker.died", error=repr(error), traceback=traceback.format_exc())
            os._exit(FAILED)
        self._free.append(run.lane)
        self._control.wake_main()


def _told_only(run: Run, reason: Reason) -> None:
    """A thread cannot be unwound; the parent kills the process when the time is over."""
