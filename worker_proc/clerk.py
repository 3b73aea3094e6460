"""The second thread of a serial lane: works at the desk while the main thread is inside a body."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from stoker import logs
from worker_proc.batching import AHEAD_WORK_S, Batching
from worker_proc.control import Control, start_thread
from worker_proc.desk import Desk
from worker_proc.desk_connection import DeskClosed
from worker_proc.hand import Hand
from worker_proc.runs import Run, Runs

# A head that runs longer than this keeps nobody waiting: its row lock becomes a lease, what is behind it is let go.
LONG_NS: Final = 20_000_000
# What takes three times as long as it should is let go as well: a batch, or what was claimed ahead with its head.
OLD_NS: Final = 3 * LONG_NS
OLD_AHEAD_NS: Final = int(3 * AHEAD_WORK_S * 1e9)
SWITCH_S: Final = 0.001

log = logs.get("worker")


class Clerk:
    """While a long body runs it writes what ended and lets go of the rest; while the last run it claims the next."""

    def __init__(self, control: Control, *, desk: Desk, runs: Runs, hand: Hand, batching: Batching) -> None:
        self._control = control
        self._desk = desk
        self._runs = runs
        self._hand = hand
        self._batching = batching
        self._called = threading.Event()
        # It is to claim ahead; it is at it.
        self._wants_ahead = self._claims_ahead = False
        self._old_at = 0
        self._watched = False

    def start(self) -> None:
        """Main thread only."""
        # A body that computes would let the clerk wait 5 ms each time it needs the interpreter.
        sys.setswitchinterval(SWITCH_S)
        start_thread(self._serve, "stoker-clerk")

    # On main

    def batch_begins(self, *, watch: bool) -> None:
        """Measure from here on how long the bodies take; `watch`: there is something to let go of if it is long."""
        self._old_at = time.monotonic_ns() + OLD_NS
        if watch and not self._watched:
            self._control.look_soon()

    def body_begins(self, name: str) -> None:
        """Claim ahead if little is in hand behind a leased body of this name, and if that is worth it."""
        if not self.busy() and self._batching.ahead(name, behind=len(self._hand.reserved)):
            self._wants_ahead = True
            self._called.set()

    def lease(self, executing: Sequence[Run]) -> None:
        """Write what ended, lease what executes, free the rest; a run whose lock is lost is ended (any thread)."""
        try:
            self._desk.settle(keep=[run.claimed for run in executing])
        except DeskClosed as error:
            # The endings are pending again; main connects anew when the body is over.
            log.warning("worker.settle_postponed", error=str(error))
        self._hand.locked = False
        for run in executing:
            if self._desk.lost(run.claimed):
                self._runs.lose(run)

    def busy(self) -> bool:
        """True while it claims, or is about to."""
        return self._wants_ahead or self._claims_ahead

    # On the control thread

    def look(self, now: int) -> int:
        """Call it when the head runs long; returns when it will have."""
        # Said before looking: main reserves first and then asks whether we watch, so one of us sees the other.
        self._watched = False
        if not self._hand.reserved and not self._desk.pending and not self._desk.holds_locks:
            return now + 50 * LONG_NS
        self._watched = True
        if (due := self._overdue_at(now)) > now and self._hand.accepting():
            return due
        self._called.set()
        return now + LONG_NS

    def _overdue_at(self, now: int) -> int:
        executing = self._runs.executing
        if not executing:
            return now + LONG_NS
        head = executing[0]
        behind_the_head = head.started + int(self._batching.patience(head.claimed.name) * 1e9)
        # Jobs that became slower, each of them in time.
        return min(behind_the_head, self._old_at) if len(self._hand.reserved) > 0 else behind_the_head

    # On its own thread

    def _serve(self) -> None:
        while True:
            self._called.wait()
            self._called.clear()
            if self._wants_ahead:
                # In this order: one of the two is true from the wish to its end.
                self._claims_ahead, self._wants_ahead = True, False
                self._claim_ahead()
                self._claims_ahead = False
                self._control.wake_main()
            with self._hand.lock:
                executing = self._runs.executing
                if not executing or (self._overdue_at(now := time.monotonic_ns()) > now and self._hand.accepting()):
                    continue
                self._hand.let_go()
            self.lease(executing)

    def _claim_ahead(self) -> None:
        executing = self._runs.executing
        if not executing or not self._hand.may_start():
            return
        try:
            room = self._batching.ahead(executing[0].claimed.name) or 1
            claims = self._desk.exchange(room, self._hand.holder, ahead=True)
        except DeskClosed as error:
            log.warning("worker.settle_postponed", error=str(error))
            return
        self._old_at = time.monotonic_ns() + OLD_AHEAD_NS
        self._batching.came_ahead(full=claims.full)
        self._hand.add_ahead(claims.jobs)
