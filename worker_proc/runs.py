"""The bodies this process executes: their lanes on the board, their signals, their deadlines, and what they became."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from stoker.body import Ended
from stoker.drivers.base import Claimed, Holder, Settlement
from stoker.errors import Aborted
from stoker.job import Job
from stoker.run_signal import Reason, RunSignal, strongest
from stoker.settings import Settings
from stoker.shield import shielded
from stoker.verdict import OUTCOME_LABEL, judge
from worker_proc import copies
from worker_proc.board import OTHER, Word
from worker_proc.control import BEAT_NS, Control
from worker_proc.messages import Cancel
from worker_proc.peaks import Peaks, tell_peak
from worker_proc.run_report import report
from worker_proc.tally import Tally

FAR_NS: Final = 1_000_000_000

# Makes a body end: an interrupt, a cancelled task, or nothing for a thread.
Unwind = Callable[["Run", Reason], None]


class Run:
    """One executing body."""

    __slots__ = (
        *(
            "_runs",
            "claimed",
            "extended",
            "host",
            "job",
            "lane",
            "late",
            "peak_rss",
            "signal",
            "soft",
            "started",
            "timeout",
        ),
        *("token", "unwind", "unwound"),
    )

    def __init__(
        self, runs: Runs, token: int, lane: int, claimed: Claimed, job: Job[..., Any] | None, host: int, unwind: Unwind
    ) -> None:
        self._runs = runs
        self.token = token
        self.lane = lane
        self.claimed = claimed
        self.job = job
        self.host = host
        self.unwind = unwind
        self.signal = RunSignal()
        self.unwound: tuple[Reason, ...] = ()
        self.started = started = time.monotonic_ns()
        self.timeout = job.timeout if job is not None else None
        self.soft = started + int(self.timeout * 1e9) if self.timeout else 0
        self.late = self.extended = False
        self.peak_rss = 0

    def time_left(self) -> float | None:
        """Seconds until the timeout or the end of a drain."""
        return self._runs.time_left(self)

    def lease(self) -> None:
        """Have the job held by a lease from here on."""
        self._runs.lease(self)

    def extend(self, seconds: float) -> None:
        """Let the timeout be so many seconds from now. Raises Aborted when the run was told to end."""
        self._runs.extend(self, seconds)


class Runs:
    """Begins and ends runs (any thread), aborts and unwinds them (control thread)."""

    def __init__(
        self, control: Control, *, settings: Settings, names: Sequence[str], lease: Callable[[Run], None]
    ) -> None:
        self._control = control
        self.lease = lease
        self._settings = settings
        self._kill_after = int(settings.kill_after * 1e9)
        self._pid = os.getpid()
        self._slot = control.slot
        self._index = {name: at for at, name in enumerate(names)}
        self._tokens = itertools.count(1)
        self._rng = random.Random()
        self._executing: dict[int, Run] = {}
        # Lanes end on their own threads; a counter has one writer at a time.
        self._lock = threading.Lock()
        self._draining = False
        self._peaks = Peaks()
        self.tally = Tally()

    def begin(
        self,
        claimed: Claimed,
        job: Job[..., Any] | None,
        lane: int,
        holder: Holder,
        unwind: Unwind,
    ) -> Run:
        """Name the body on the board."""
        token = next(self._tokens)
        run = Run(self, token, lane, claimed, job, holder.host, unwind)
        executing, soft = self._executing, run.soft
        with self._lock:
            executing[token] = run
            hard = soft + self._kill_after if soft else 0
            self._slot.fill_lane(lane, claimed.id, claimed.run_no, hard, bodies=len(executing))
        if self._draining:
            run.signal.abort("drain")
        if soft and soft - run.started < BEAT_NS:
            self._control.look_soon()
        return run

    def end(self, run: Run, ended: Ended | None, *, keep: Callable[[Settlement | None], None]) -> float:
        """Take the body off the board and return its seconds.

        `keep` takes what its run became (None when it is not ours to say) while it still counts as executing: at every
        moment somebody knows that this process holds it.
        """
        if os.getpid() != self._pid:
            copies.leave(ended.error if ended else None)
        elapsed = (time.monotonic_ns() - run.started) * 1e-9
        # What arrives from here on changes nothing any more.
        reasons = run.signal.close()
        settlement = judge(
            run.job,
            run.claimed,
            ended,
            reasons,
            elapsed=elapsed,
            rng=self._rng,
            settings=self._settings,
            timeout=run.timeout,
        )
        outcome = OUTCOME_LABEL.get(settlement.outcome) if settlement else "lost"
        tell_peak(settlement, run)
        keep(settlement)
        slot, executing = self._slot, self._executing
        with self._lock:
            del executing[run.token]
            slot.clear_lane(run.lane, bodies=len(executing))
            if run.extended:
                slot.move_deadline(run.lane, 0, 0)
            if outcome is not None:
                slot.count_run(outcome, self._index.get(run.claimed.name, OTHER), elapsed)
            if self._control.stop_reason and settlement is not None:
                self.tally.count(settlement)
        if settlement is None or settlement.outcome != "completed":
            report(run.claimed, settlement, reasons, elapsed)
        return elapsed

    def extend(self, run: Run, seconds: float) -> None:
        """Move the deadlines of an executing body to `seconds` from now; any thread of this process."""
        copies.refuse(self._pid, "a timeout that is long enough")
        # Decided together with the control thread, which may be about to end this very run.
        with shielded, self._lock:
            if self._executing.get(run.token) is not run:
                raise Aborted(reason="its body is over")
            if run.late or "cancel" in run.signal.reasons or "lease_lost" in run.signal.reasons:
                raise Aborted(reason=strongest((*run.signal.reasons, "timeout")) or "timeout")
            now = time.monotonic_ns()
            run.timeout = round((now - run.started) / 1e9 + seconds, 3)
            run.soft = now + int(seconds * 1e9)
            self._slot.move_deadline(run.lane, run.soft + self._kill_after, int(run.timeout * 1e3))
            run.extended = True
        self._control.look_soon()

    def lost(self) -> None:
        """Count an ending that was fenced off: the run belonged to somebody else by then."""
        with self._lock:
            self._slot.count("lost", OTHER)

    @property
    def executing(self) -> tuple[Run, ...]:
        """The bodies that execute now."""
        return tuple(self._executing.values())

    # On the control thread

    def abort_for_drain(self) -> None:
        """Tell every run, present and future, that this process is to end."""
        self._draining = True
        for run in self.executing:
            run.signal.abort("drain")

    def cancel(self, message: Cancel) -> None:
        """Abort and unwind the run the message names, if it is still executing."""
        for run in self.executing:
            if run.claimed.id == message.job_id and run.claimed.run_no == message.run_no:
                self._end_now(run, "cancel")

    def look(self, now: int) -> int:
        """Unwind what is overdue; returns when something is due next."""
        unwind_at = self._drain_unwinds_at()
        host = self._control.board[Word.HOST_ID]
        due = now + FAR_NS
        self._peaks.look(now, self.executing)
        for run in self.executing:
            if host not in (run.host, 0):
                self._end_now(run, "lease_lost")
            if self._is_late(run, now):
                self._end_now(run, "timeout")
            elif run.soft:
                due = min(due, run.soft)
            if unwind_at and now >= unwind_at:
                self._end_now(run, "drain")
        return min(due, unwind_at) if unwind_at > now else due

    def _is_late(self, run: Run, now: int) -> bool:
        with self._lock:
            run.late = run.late or 0 < run.soft <= now
            return run.late

    def lose(self, run: Run) -> None:
        """The job is not ours any more: its run writes nothing and ends (any thread)."""
        self._end_now(run, "lease_lost")

    def _end_now(self, run: Run, reason: Reason) -> None:
        if reason not in run.unwound:
            run.unwound = (*run.unwound, reason)
            if reason not in run.signal.reasons:
                run.signal.abort(reason)
            run.unwind(run, reason)

    def _drain_unwinds_at(self) -> int:
        """When bodies that ignored the drain are unwound: a little before its deadline, so they can be handed back."""
        deadline = self._drain_deadline()
        grace = self._settings.grace
        return deadline - int(min(0.5, grace / 10) * 1e9) if deadline and self._control.aborts else 0

    def _drain_deadline(self) -> int:
        if not self._control.stopping:
            return 0
        board = self._control.board[Word.DRAIN_DEADLINE]
        own = self._control.close_deadline
        return min(board or own, own or board)

    def time_left(self, run: Run) -> float | None:
        """Seconds until the run's timeout or the end of the drain."""
        deadlines = [deadline for deadline in (run.soft, self._drain_deadline()) if deadline]
        return max(0.0, (min(deadlines) - time.monotonic_ns()) / 1e9) if deadlines else None
