"""The worker: claims jobs of one queue, runs them in its lanes, settles them."""

from __future__ import annotations

import random

from stoker import logs, registry
from stoker.drivers.base import Holder, Settlement
from stoker.errors import SchemaTooOld
from stoker.hooks import run_start_hooks, run_stop_hooks
from stoker.settings import Settings
from worker_proc.board import Phase, SlotState, SlotWord, Word
from worker_proc.control import Control
from worker_proc.desk import Desk
from worker_proc.desk_connection import DeskClosed
from worker_proc.linux import boottime_ns
from worker_proc.messages import AnyMessage, Cancel, Closed, ForkSpec, Ready, WaitingForDatabase
from worker_proc.parallel import ParallelLanes
from worker_proc.role import Role
from worker_proc.runs import Runs
from worker_proc.serial import SerialLane

_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.1, 2.0
# While this host may not claim: how often to see whether it may again.
_UNTRUSTED_PAUSE_S = 0.1

log = logs.get("worker")


class Worker(Role):
    """One process of one queue. A lost connection is opened anew; endings wait for it, fenced.

    A solo worker runs suspects, one at a time, and is done when none is left.
    """

    def __init__(self, control: Control, *, spec: ForkSpec, settings: Settings) -> None:
        super().__init__(control)
        self._spec = spec
        self._settings = settings
        self._registry = registry.current()
        self._runs = Runs(control, settings=settings, names=spec.names, lease=lambda run: self._lanes.lease(run))
        self._desk = Desk(
            control,
            settings=settings,
            name=spec.title,
            queue=spec.queue,
            held=self._held,
            on_lost=self._lost,
            solo=spec.solo,
        )
        self._lanes = self._make_lanes(spec.lanes)
        self._pause = _LEAST_PAUSE_S
        self._announced = ""
        self._none_left = False

    def _make_lanes(self, lanes: int) -> SerialLane | ParallelLanes:
        desk, runs, declared = self._desk, self._runs, self._registry
        if lanes == 1:
            queue, solo = self._settings.queues.get(self._spec.queue), self._spec.solo
            return SerialLane(
                self.control,
                desk=desk,
                runs=runs,
                registry=declared,
                cap=1 if solo else self._settings.batch,
                row_locks=self._settings.row_locks == "auto" and not solo,
                # One that ended well must not be in doubt should the next one kill us.
                ack_each=solo or (queue is not None and queue.ack == "each"),
            )
        return ParallelLanes(self.control, desk=desk, runs=runs, registry=declared, lanes=lanes)

    def _held(self) -> list[int]:
        # In the order in which a job goes: whatever moves on meanwhile is seen where it arrives.
        return [*(one.id for one in self._lanes.reserved), *(run.claimed.id for run in self._runs.executing)]

    @property
    def done(self) -> bool:
        """When told to stop, or when no suspect is left."""
        return self._none_left or super().done

    def boot(self) -> None:
        """Run the application's start hooks; what they raise fails the boot."""
        self._lanes.start()
        run_start_hooks(self._registry, run_coroutine=self._lanes.run_coroutine)

    def turn(self) -> float:
        """One round trip: settle what ended, claim what fits, and begin it."""
        try:
            if not self._desk.connected:
                self._connect()
            if not self._may_claim():
                self._lanes.let_go()
                self._desk.settle()
                return _UNTRUSTED_PAUSE_S
            return self._exchange()
        except (DeskClosed, SchemaTooOld) as error:
            return self._wait_for_database(str(error))

    def _exchange(self) -> float:
        room = self._lanes.room()
        if room == 0:
            self._desk.settle()
            return self._settings.poll_every
        holder = Holder(self.control.board[Word.HOST_ID], self._spec.claim_no)
        claims = self._desk.exchange(room, holder, by_lock=self._lanes.by_lock())
        self.control.slot[SlotWord.MORE] = claims.full
        self.control.slot[SlotWord.CLAIMS] += 1
        if not self.control.stopping:
            self._lanes.take(claims, holder)
        else:
            self._desk.let_go(claims.jobs)
        if claims.jobs or self._desk.pending or self._desk.may_have_more:
            return 0.0
        self._none_left = self._spec.solo
        return 0.0 if self._none_left else self._settings.poll_every

    def _may_claim(self) -> bool:
        board = self.control.board
        return board[Word.PHASE] == Phase.RUNNING and board.lease_trusted(boottime_ns())

    def _connect(self) -> None:
        self._desk.open()
        self._pause = _LEAST_PAUSE_S
        if not self.control.stopping:
            self.control.slot[SlotWord.STATE] = SlotState.READY
        if self._announced != "ready":
            self._announced = "ready"
            self.control.send(Ready())

    def _wait_for_database(self, error: str) -> float:
        if self._announced != "waiting":
            self._announced = "waiting"
            if not self.control.stopping:
                self.control.slot[SlotWord.STATE] = SlotState.WAITING_FOR_DATABASE
            self.control.send(WaitingForDatabase(error[:1000]))
        pause, self._pause = self._pause, min(self._pause * 2, _MOST_PAUSE_S)
        return pause * random.uniform(0.8, 1.2)

    def drain(self) -> Closed:
        """Wait for the bodies, write every ending, and stay until told to close."""
        while self._is_held():
            self.control.wait(self._settle_once())
        while not (self.control.told_to_close or self._none_left):
            self.control.wait(1.0)
        tally = self._runs.tally
        return Closed(finished=tally.finished, interrupted=tally.interrupted, abandoned=0)

    def _is_held(self) -> bool:
        # Asked first: what was claimed ahead meanwhile is let go then.
        busy = self._lanes.busy()
        self._lanes.let_go()
        return busy or self._desk.pending > 0 or self._desk.holds_locks

    def _settle_once(self) -> float:
        try:
            if not self._desk.connected:
                self._connect()
            self._desk.settle()
        except (DeskClosed, SchemaTooOld):
            return 0.2
        return 1.0 if self._lanes.busy() else 0.0

    def close(self) -> None:
        """Run the application's stop hooks, then let go of loop and connection."""
        run_stop_hooks(self._registry, run_coroutine=self._lanes.run_coroutine)
        self._lanes.close()
        self._desk.close()

    def _lost(self, settlement: Settlement) -> None:
        log.warning("run.lease_lost", job_id=settlement.job_id, run_no=settlement.run_no, outcome=settlement.outcome)
        if settlement.outcome != "handed_back":
            self._runs.lost()

    # On the control thread

    def on_message(self, message: AnyMessage) -> None:
        """Cancel one run."""
        if isinstance(message, Cancel):
            self._runs.cancel(message)

    def on_stop(self) -> None:
        """Tell the bodies; what is reserved is handed back by the next look."""
        if self.control.aborts:
            self._runs.abort_for_drain()

    def look(self, now_ns: int) -> int:
        """Unwind overdue bodies, hand back what waits behind a long one."""
        return min(self._runs.look(now_ns), self._lanes.look(now_ns))
