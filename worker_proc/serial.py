"""One lane: a small batch of jobs, leased or locked, run in order in the main thread."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from stoker import logs
from stoker.drivers.base import Claimed, Holder
from stoker.job import Job
from stoker.registry import Registry
from stoker.shield import shielded
from worker_proc import copies
from worker_proc.batching import Batching
from worker_proc.board import Phase, Word
from worker_proc.control import Control, start_thread
from worker_proc.desk import Claims, Desk
from worker_proc.desk_connection import DeskClosed
from worker_proc.executor import Executor
from worker_proc.linux import boottime_ns
from worker_proc.runs import Run, Runs

# A head that runs longer than this keeps nobody waiting: its row lock becomes a lease, what is behind it is let go.
LONG_NS: Final = 20_000_000
# And a batch that takes three times as long as it should is let go as well.
OLD_NS: Final = 3 * LONG_NS
SWITCH_S: Final = 0.001

log = logs.get("worker")


class SerialLane:
    """Executes one body at a time. A clerk works at the desk meanwhile.

    While a long body runs it writes what ended and lets go of the rest; while the last one in hand runs it claims
    the next.
    """

    def __init__(
        self,
        control: Control,
        *,
        desk: Desk,
        runs: Runs,
        registry: Registry,
        cap: int,
        row_locks: bool,
        ack_each: bool,
    ) -> None:
        self._control = control
        self._desk = desk
        self._runs = runs
        self._registry = registry
        self._row_locks = row_locks
        self._ack_each = ack_each
        self._batching = Batching(cap=cap)
        self._last: Job[..., Any] | None = None
        self._reserved: deque[Claimed] = deque()
        # Held while main begins a body or the clerk takes what is unstarted, so that each sees all of the other's step.
        self._starting = threading.Lock()
        self._locked = False
        self._taken_at = 0
        self._pid = os.getpid()
        self._executor = Executor(registry)
        self._clerk_called = threading.Event()
        self._holder = Holder(0, 0)
        # The clerk is to claim ahead; it is at it.
        self._wants_ahead = self._claims_ahead = False
        self._watched = False

    def start(self) -> None:
        """Take over the unwinding signal and start the clerk. Main thread only."""
        self._executor.install()
        # A body that computes would let the clerk wait 5 ms each time it needs the interpreter.
        sys.setswitchinterval(SWITCH_S)
        start_thread(self._clerk, "stoker-clerk")

    def room(self) -> int:
        """How many jobs to claim next."""
        return 1 if self._last is not None and self._acks(self._last) else self._batching.next()

    def by_lock(self) -> bool:
        """True when the next jobs are likely to be short."""
        return self._last is not None and self._lockable(self._last)

    def take(self, claims: Claims, holder: Holder) -> None:
        """Run a batch to its end, or until a stop or the clerk takes the rest away."""
        if holder != self._holder:
            self.let_go()
            self._holder = holder
        jobs: Sequence[Claimed] = claims.jobs
        with self._starting:
            if claims.locked:
                self._let_go()
            self._locked = claims.locked
        if claims.locked and jobs:
            jobs = self._leading(jobs)
        self._reserved.extend(jobs)
        self._taken_at = time.monotonic_ns()
        if (len(jobs) > 1 or self._locked) and not self._watched:
            self._control.look_soon()
        while self._may_start(holder):
            if not self._execute_next(holder):
                return
            if self._last is not None and self._acks(self._last):
                break
        self._let_go()

    def lease(self, run: Run) -> None:
        """Turn the row lock of the executing job into a lease, if it has one (its own thread). Raises Aborted."""
        if self._desk.may_hold(run.claimed):
            copies.refuse(self._pid, "a fencing token that was read before the fork")
            with shielded, self._starting:
                self._let_go()
                self._lease([run])
        if "lease_lost" in run.signal.reasons:
            run.signal.raise_if_aborted()

    @property
    def reserved(self) -> Sequence[Claimed]:
        """Claimed and not started."""
        return tuple(self._reserved)

    def busy(self) -> bool:
        """True while the clerk claims; bodies run inside turns."""
        return self._wants_ahead or self._claims_ahead

    def let_go(self) -> None:
        """Give back what is not started."""
        with self._starting:
            self._let_go()

    def close(self) -> None:
        """Give back what the bodies needed."""
        self._executor.close()

    def run_coroutine(self, coroutine: Any) -> Any:
        """Run an async hook on the loop that async handlers use."""
        return self._executor.run_coroutine(coroutine)

    def _accepting(self) -> bool:
        return not self._control.stopping and self._control.board[Word.PHASE] == Phase.RUNNING

    def _may_start(self, holder: Holder) -> bool:
        control, board = self._control, self._control.board
        if control.stop_reason or board.words[Word.PHASE]:
            return False
        # A host that slept between claim and start may have been judged dead: what it leased runs elsewhere.
        return self._locked or (board[Word.HOST_ID] == holder.host and board.lease_trusted(boottime_ns()))

    def _acks(self, job: Job[..., Any]) -> bool:
        return self._ack_each or job.ack_each

    def _lockable(self, job: Job[..., Any]) -> bool:
        return self._row_locks and not job.lease and self._batching.is_short(job.name)

    def _leading(self, jobs: Sequence[Claimed]) -> Sequence[Claimed]:
        """The short ones that come first; when there is none, the first alone, leased. The rest is let go."""
        lockable = {name for name in {one.name for one in jobs} if (job := self._registry.get(name)) and not job.lease}
        names = []
        for one in jobs:
            # One that may have killed its process runs where a death is its own for certain.
            if one.crashes or one.name not in lockable:
                break
            names.append(one.name)
        count = self._batching.leading(names)
        self._desk.let_go(jobs[max(count, 1) :])
        if count:
            return jobs[:count]
        self._desk.settle(keep=jobs[:1])
        self._locked = False
        return [] if self._desk.lost(jobs[0]) else jobs[:1]

    def _execute_next(self, holder: Holder) -> bool:
        with self._starting:
            if not self._reserved:
                return False
            claimed = self._reserved.popleft()
            job = self._registry.get(claimed.name)
            run = self._runs.begin(claimed, job, 0, holder, self._executor.unwind)
        if not self._locked and not self._reserved and job is not None and not self._acks(job):
            self._think_ahead(claimed.name)
        seconds = self._runs.end(run, self._executor.execute(run, job), keep=self._desk.add)
        self._last = job
        if job is not None:
            self._batching.observe(claimed.name, seconds)
        return True

    def _think_ahead(self, name: str) -> None:
        if self._batching.ahead(name):
            self._wants_ahead = True
            self._clerk_called.set()

    def _let_go(self) -> None:
        unstarted = [*self._reserved]
        self._reserved.clear()
        self._desk.let_go(unstarted)

    def _lease(self, executing: Sequence[Run]) -> None:
        """Write what ended, lease what executes, free the rest; a run whose lock is lost already is ended."""
        try:
            self._desk.settle(keep=[run.claimed for run in executing])
        except DeskClosed as error:
            # The endings are pending again; main connects anew when the body is over.
            log.warning("worker.settle_postponed", error=str(error))
        self._locked = False
        for run in executing:
            if self._desk.lost(run.claimed):
                self._runs.lose(run)

    # On the control thread

    def look(self, now: int) -> int:
        """Call the clerk when the head runs long; returns when it will have."""
        if self._executor.strike_again():
            return now + LONG_NS
        # Said before looking: main reserves first and then asks whether we watch, so one of us sees the other.
        self._watched = False
        if not self._reserved and not self._desk.pending and not self._desk.holds_locks:
            return now + 50 * LONG_NS
        self._watched = True
        if (due := self._overdue_at(now)) > now and self._accepting():
            return due
        self._clerk_called.set()
        return now + LONG_NS

    def _overdue_at(self, now: int) -> int:
        executing = self._runs.executing
        if not executing:
            return now + LONG_NS
        head = executing[0]
        behind_the_head = head.started + int(self._batching.patience(head.claimed.name) * 1e9)
        # Jobs that became slower, each of them in time.
        return min(behind_the_head, self._taken_at + OLD_NS) if len(self._reserved) > 0 else behind_the_head

    # On the clerk's thread

    def _clerk(self) -> None:
        while True:
            self._clerk_called.wait()
            self._clerk_called.clear()
            if self._wants_ahead:
                # In this order: one of the two is true from the wish to its end.
                self._claims_ahead, self._wants_ahead = True, False
                self._claim_ahead(self._holder)
                self._claims_ahead = False
                self._control.wake_main()
            with self._starting:
                executing = self._runs.executing
                if not executing or (self._overdue_at(now := time.monotonic_ns()) > now and self._accepting()):
                    continue
                self._let_go()
            self._lease(executing)

    def _claim_ahead(self, holder: Holder) -> None:
        """Settle what ended and claim what comes next while main runs the last job in hand."""
        executing = self._runs.executing
        if not executing or not self._may_start(holder):
            return
        try:
            room = self._batching.ahead(executing[0].claimed.name) or 1
            claims = self._desk.exchange(room, holder, ahead=True)
        except DeskClosed as error:
            log.warning("worker.settle_postponed", error=str(error))
            return
        with self._starting:
            # Leases among locked jobs would start without anybody asking whether they are still ours.
            if self._may_start(holder) and not self._locked:
                self._reserved.extend(claims.jobs)
            else:
                self._desk.let_go(claims.jobs)
