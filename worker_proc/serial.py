"""One lane: a small batch of jobs, leased or locked, run in order in the main thread."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stoker.drivers.base import Claimed, Holder
from stoker.job import Job
from stoker.registry import Registry
from stoker.shield import shielded
from worker_proc import copies
from worker_proc.batching import Batching
from worker_proc.clerk import LONG_NS, Clerk
from worker_proc.control import Control
from worker_proc.desk import Claims, Desk
from worker_proc.executor import Executor
from worker_proc.hand import Hand
from worker_proc.runs import Run, Runs


class SerialLane:
    """Executes one body at a time. A clerk works at the desk meanwhile."""

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
        self._desk = desk
        self._runs = runs
        self._registry = registry
        self._row_locks = row_locks
        self._ack_each = ack_each
        self._batching = Batching(cap=cap)
        self._hand = Hand(control, desk)
        self._clerk = Clerk(control, desk=desk, runs=runs, hand=self._hand, batching=self._batching)
        self._executor = Executor(registry)
        self._last: Job[..., Any] | None = None
        self._pid = os.getpid()

    def start(self) -> None:
        """Take over the unwinding signal and start the clerk. Main thread only."""
        self._executor.install()
        self._clerk.start()

    def room(self) -> int:
        """How many jobs to claim next."""
        return 1 if self._last is not None and self._acks(self._last) else self._batching.next()

    def by_lock(self) -> bool:
        """True when the next jobs are likely to be short."""
        last = self._last
        return last is not None and self._row_locks and not last.lease and self._batching.is_short(last.name)

    def take(self, claims: Claims, holder: Holder) -> None:
        """Run a batch to its end, or until a stop or the clerk takes the rest away."""
        hand = self._hand
        if holder != hand.holder:
            self.let_go()
            hand.holder = holder
        jobs: Sequence[Claimed] = claims.jobs
        with hand.lock:
            if claims.locked:
                hand.let_go()
            hand.locked = claims.locked
        if claims.locked and jobs:
            jobs = self._leading(jobs)
        hand.reserved.extend(jobs)
        self._clerk.batch_begins(watch=len(jobs) > 1 or hand.locked)
        while hand.may_start():
            if not self._execute_next():
                return
            if self._last is not None and self._acks(self._last):
                break
        self.let_go()

    def lease(self, run: Run) -> None:
        """Turn the row lock of the executing job into a lease, if it has one (its own thread). Raises Aborted."""
        if self._desk.may_hold(run.claimed):
            copies.refuse(self._pid, "a fencing token that was read before the fork")
            with shielded, self._hand.lock:
                self._hand.let_go()
                self._clerk.lease([run])
        if "lease_lost" in run.signal.reasons:
            run.signal.raise_if_aborted()

    @property
    def reserved(self) -> Sequence[Claimed]:
        """Claimed and not started."""
        return tuple(self._hand.reserved)

    def busy(self) -> bool:
        """True while the clerk claims; bodies run inside turns."""
        return self._clerk.busy()

    def let_go(self) -> None:
        """Give back what is not started."""
        with self._hand.lock:
            self._hand.let_go()

    def close(self) -> None:
        """Give back what the bodies needed."""
        self._executor.close()

    def run_coroutine(self, coroutine: Any) -> Any:
        """Run an async hook on the loop that async handlers use."""
        return self._executor.run_coroutine(coroutine)

    def look(self, now: int) -> int:
        """See to a body that does not end; returns when to look again (control thread)."""
        return now + LONG_NS if self._executor.strike_again() else self._clerk.look(now)

    def _acks(self, job: Job[..., Any]) -> bool:
        return self._ack_each or job.ack_each

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
        self._hand.locked = False
        return [] if self._desk.lost(jobs[0]) else jobs[:1]

    def _execute_next(self) -> bool:
        hand = self._hand
        with hand.lock:
            if not hand.reserved:
                return False
            claimed = hand.reserved.popleft()
            job = self._registry.get(claimed.name)
            run = self._runs.begin(claimed, job, 0, hand.holder, self._executor.unwind)
        if not hand.locked and job is not None and not self._acks(job):
            self._clerk.body_begins(claimed.name)
        seconds = self._runs.end(run, self._executor.execute(run, job), keep=self._desk.add)
        self._last = job
        if job is not None:
            self._batching.observe(claimed.name, seconds)
        return True
