"""One lane: a small batch of reserved jobs, run in order in the main thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from stoker import logs
from stoker.body import Ended, run_async, run_sync
from stoker.drivers.base import Claimed, Holder
from stoker.job import Job
from stoker.registry import Registry
from worker_proc.batching import Batching
from worker_proc.board import Phase, Word
from worker_proc.control import Control, start_thread
from worker_proc.desk import Desk, DeskClosed
from worker_proc.linux import boottime_ns
from worker_proc.runs import Run, Runs
from worker_proc.unwind import Unwinder

# A head that runs longer than this keeps nobody waiting: what is reserved behind it is handed back.
LONG_NS: Final = 20_000_000

log = logs.get("worker")


class SerialLane:
    """Executes one body at a time. While a long one runs, a clerk writes what is finished and hands back the rest."""

    def __init__(self, control: Control, *, desk: Desk, runs: Runs, registry: Registry, cap: int) -> None:
        self._control = control
        self._desk = desk
        self._runs = runs
        self._registry = registry
        self._batching = Batching(cap=cap)
        self._reserved: deque[Claimed] = deque()
        self._unwinder = Unwinder()
        self._clerk_called = threading.Event()
        self._watched = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Take over the unwinding signal and start the clerk. Main thread only."""
        self._unwinder.install()
        start_thread(self._clerk, "stoker-clerk")

    def room(self) -> int:
        """How many jobs to claim next."""
        return self._batching.next()

    def take(self, claimed: list[Claimed], holder: Holder) -> None:
        """Run a batch to its end, or until a stop or the clerk takes the rest away."""
        self._reserved.extend(claimed)
        if len(claimed) > 1 and not self._watched:
            self._control.look_soon()
        while self._may_start(holder):
            try:
                job = self._reserved.popleft()
            except IndexError:
                return
            self._execute(job, holder)
        self._hand_back()

    def busy(self) -> bool:
        """Never between turns: bodies run inside them."""
        return False

    def close(self) -> None:
        """Close the event loop, if an async handler made one."""
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def run_coroutine(self, coroutine: Any) -> Any:
        """Run an async hook on the loop that async handlers use."""
        return self._event_loop().run_until_complete(coroutine)

    def _accepting(self) -> bool:
        return not self._control.stopping and self._control.board[Word.PHASE] == Phase.RUNNING

    def _may_start(self, holder: Holder) -> bool:
        # A host that slept between claim and start may have been judged dead: what it reserved runs elsewhere.
        board = self._control.board
        return self._accepting() and board[Word.HOST_ID] == holder.host and board.lease_trusted(boottime_ns())

    def _execute(self, claimed: Claimed, holder: Holder) -> None:
        job = self._registry.get(claimed.name)
        if job is None:
            run = self._runs.begin(claimed, None, lane=0, holder=holder, unwind=lambda _: _leave_alone)
            ended = None
        elif job.is_async:
            run, ended = self._execute_async(job, claimed, holder)
        else:
            run = self._runs.begin(claimed, job, lane=0, holder=holder, unwind=self._interrupt)
            self._unwinder.name(run.token)
            ended = run_sync(job, claimed, run.ctx, self._registry, gate=self._unwinder)
        self._batching.observe(self._runs.end(run, ended, keep=self._desk.add))

    def _execute_async(self, job: Job[..., Any], claimed: Claimed, holder: Holder) -> tuple[Run, Ended]:
        loop = self._event_loop()
        tasks: list[asyncio.Task[Ended]] = []

        def cancel(_: str) -> None:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])

        run = self._runs.begin(claimed, job, lane=0, holder=holder, unwind=lambda _: cancel)
        tasks.append(loop.create_task(run_async(job, claimed, run.ctx, self._registry)))
        try:
            return run, loop.run_until_complete(tasks[0])
        except asyncio.CancelledError as error:
            # Cancelled before its first step, so the body could not say it itself.
            return run, Ended(False, None, error)

    def _interrupt(self, token: int) -> Callable[[str], None]:
        return lambda reason: self._unwinder.strike(token, reason)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    def _hand_back(self) -> None:
        while True:
            try:
                self._desk.hand_back([self._reserved.pop()])
            except IndexError:
                return

    # On the control thread

    def look(self, now: int) -> int:
        """Call the clerk when the head runs long; returns when it will have."""
        if self._unwinder.strike_again():
            return now + LONG_NS
        # Said before looking: main reserves first and then asks whether we watch, so one of us sees the other.
        self._watched = False
        if not self._reserved and not self._desk.pending:
            return now + 50 * LONG_NS
        self._watched = True
        executing = self._runs.executing
        overdue = (executing[0].started if executing else now) + LONG_NS
        if now < overdue and self._accepting():
            return overdue
        self._clerk_called.set()
        return now + LONG_NS

    # On the clerk's thread

    def _clerk(self) -> None:
        while True:
            self._clerk_called.wait()
            self._clerk_called.clear()
            if not self._runs.executing:
                continue
            self._hand_back()
            try:
                self._desk.settle()
            except DeskClosed as error:
                # The endings are pending again; main connects anew when the body is over.
                log.warning("worker.settle_postponed", error=str(error))


def _leave_alone(reason: str) -> None:
    """There is no body to unwind."""
