"""Executes one body at a time in the main thread, plain or async, and makes it end when it has to."""

from __future__ import annotations

import asyncio
from typing import Any

from stoker.body import Ended, run_async, run_sync
from stoker.context import Ctx
from stoker.job import Job
from stoker.registry import Registry
from stoker.run_signal import Reason
from worker_proc.runs import Run
from worker_proc.unwind import Unwinder


class Executor:
    """Main thread only, but for `unwind` and `strike_again`, which are the control thread's."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._unwinder = Unwinder()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: tuple[int, asyncio.Task[Ended]] | None = None

    def install(self) -> None:
        """Take over the unwinding signal."""
        self._unwinder.install()

    def execute(self, run: Run, job: Job[..., Any] | None) -> Ended | None:
        """Run a body to its end, however it ends; None for a job whose name is unknown here."""
        if job is None:
            return None
        if job.is_async:
            return self._execute_async(run, job)
        self._unwinder.name(run.token)
        return run_sync(job, run.claimed, Ctx(claimed=run.claimed, run=run), self._registry, gate=self._unwinder)

    def unwind(self, run: Run, reason: Reason) -> None:
        """Interrupt the body, or cancel its task."""
        if run.job is None:
            return
        if run.job.is_async:
            self._event_loop().call_soon_threadsafe(self._cancel, run.token)
        else:
            self._unwinder.strike(run.token, reason)

    def strike_again(self) -> bool:
        """Repeat an interrupt that could not be carried out; True while one is outstanding."""
        return self._unwinder.strike_again()

    def run_coroutine(self, coroutine: Any) -> Any:
        """Run an async hook on the loop that async handlers use."""
        return self._event_loop().run_until_complete(coroutine)

    def close(self) -> None:
        """Close the event loop, if an async handler made one."""
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _execute_async(self, run: Run, job: Job[..., Any]) -> Ended:
        loop = self._event_loop()
        task = loop.create_task(run_async(job, run.claimed, Ctx(claimed=run.claimed, run=run), self._registry))
        self._task = run.token, task
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            # Cancelled before its first step, so the body could not say it itself.
            return Ended(False, None, error)
        finally:
            self._task = None

    def _cancel(self, token: int) -> None:
        if self._task is not None and self._task[0] == token:
            self._task[1].cancel()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop
