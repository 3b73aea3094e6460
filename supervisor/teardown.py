"""Carries out the drain: words on the board, messages to the children, and at the deadline SIGKILL."""

from __future__ import annotations

import time
from typing import Any

from stoker import logs
from stoker.errors import KILLED, OK
from supervisor.drain import UNBOOTED_S, Request, Stage, View
from supervisor.hands import Hands
from supervisor.house import House
from supervisor.records import Child, Kill, State
from worker_proc.board import Phase, Word
from worker_proc.messages import Close, StopAccepting

log = logs.get("supervisor")

LOOK_NS = 20_000_000
PATIENT_LOOK_NS = 100_000_000
PATIENT_AFTER_NS = 5_000_000_000


class Teardown:
    """One way down for everybody: requests join it, none starts a second."""

    def __init__(self, house: House, hands: Hands) -> None:
        self._house = house
        self._hands = hands
        self._drain = house.drain
        self._told_stage = Stage.RUNNING

    def request(self, what: Request, reason: str) -> None:
        """Begin to go down, or tighten a drain under way."""
        now = time.monotonic_ns()
        first = not self._drain.stopping
        if not self._drain.request(what, reason, now):
            return
        self._write_words()
        for child in self._house.ledger.children.values():
            self._hands.tell(child, StopAccepting(self._drain.reason, self._drain.aborts))
            if first and not child.booted and child.role == "worker":
                self._send_away(child, now)
        if self._drain.stage >= Stage.CLOSING:
            self._close_workers()
        if self._drain.stage >= Stage.KEEPER_CLOSING:
            self._close_keeper()
        if self._house.exit_code is None:
            self._tell("drain.started" if first else "drain.tightened", now)

    def step(self, now: int) -> bool:
        """Do what the drain is ready for; True when nobody is left."""
        if not self._drain.stopping:
            return False
        self._kill_late(now)
        stage = self._drain.advance(now, self._view())
        while stage > self._told_stage:
            self._told_stage = Stage(self._told_stage + 1)
            self._enter(self._told_stage)
            stage = self._drain.advance(now, self._view())
        return stage is Stage.DONE

    def next_look(self, now: int) -> int | None:
        """When time alone may move the drain; bodies that end are seen on the board only."""
        if not self._drain.stopping:
            return None
        look = self._drain.next_look(now)
        if self._drain.stage is not Stage.STOP_ACCEPTING:
            return look
        is_young = now - self._drain.started_at < PATIENT_AFTER_NS
        soon = now + (LOOK_NS if is_young else PATIENT_LOOK_NS)
        return min(soon, look or soon)

    @property
    def keeps_lease(self) -> bool:
        """Whether the host has a lease that its keeper was not told to end yet."""
        return self._drain.stopping and self._drain.stage < Stage.KEEPER_CLOSING and self._has_lease

    @property
    def _has_lease(self) -> bool:
        return self._house.board[Word.HOST_ID] != 0

    def finish(self) -> int:
        """Sum up; returns the exit code."""
        house = self._house
        if len(house.notices):
            house.lost.append(f"{len(house.notices)} dead workers' claims could not be handed back")
        code = house.exit_code if house.exit_code is not None else KILLED if house.lost else OK
        took = round((time.monotonic_ns() - self._drain.started_at) / 1e9, 3)
        if house.exit_code is None:
            runs: dict[str, Any] = {"finished": house.finished, "interrupted": house.interrupted, "lost": house.lost}
            log.event("drain.finished", took_s=took, exit=code, **runs)
        return code

    def _tell(self, event: str, now: int) -> None:
        deadline = self._drain.budget.deadline
        left: dict[str, Any] = {} if deadline is None else {"deadline_s": round((deadline - now) / 1e9, 3)}
        log.event(event, reason=self._drain.reason, in_flight=self._house.in_flight(), **left)

    def _enter(self, stage: Stage) -> None:
        if stage is Stage.CLOSING:
            self._house.board[Word.PHASE] = Phase.CLOSING
            self._close_workers()
        elif stage is Stage.KEEPER_CLOSING:
            self._close_keeper()

    def _write_words(self) -> None:
        # The phase is what readers look at, so it is written last.
        board = self._house.board
        board[Word.DRAIN_DEADLINE] = self._drain.budget.deadline or 0
        board[Word.DRAIN_ABORTS] = int(self._drain.aborts)
        board[Word.PHASE] = max(board[Word.PHASE], Phase.STOP_ACCEPTING)

    def _view(self) -> View:
        ledger = self._house.ledger
        workers = ledger.workers()
        seat = next(seat for seat in ledger.seats if seat.role == "keeper")
        return View(
            workers=len(workers),
            unstopped=sum(child.booted and child.state is not State.DRAINING for child in workers),
            in_flight=self._house.in_flight(),
            keeper=ledger.keeper() is not None,
            notices=len(self._house.notices),
            heir=self.keeps_lease and self._house.forking and seat.failures < self._house.limits.max_boot_failures,
        )

    def _close_workers(self) -> None:
        for child in self._house.ledger.workers():
            child.close_sent = True
            self._hands.tell(child, Close(self._drain.worker_close_by()))

    def _close_keeper(self) -> None:
        if keeper := self._house.ledger.keeper():
            keeper.close_sent = True
            self._hands.tell(keeper, Close(self._drain.keeper_close_by()))
            if not keeper.booted and not self._house.notices and not self._has_lease:
                self._send_away(keeper, time.monotonic_ns())

    def _send_away(self, child: Child, now: int) -> None:
        # It holds nothing yet, so there is nothing to wait for.
        child.leave_by = now + int(UNBOOTED_S * 1e9)
        self._hands.tell(child, Close(child.leave_by))

    def _kill_late(self, now: int) -> None:
        if (at := self._drain.kill_workers_at()) is not None and now >= at:
            for child in self._house.ledger.workers():
                self._kill(child, now)
        keeper = self._house.ledger.keeper()
        if keeper and (at := self._drain.kill_keeper_at()) is not None and now >= at:
            self._kill(keeper, now)

    def _kill(self, child: Child, now: int) -> None:
        if not child.kill:
            self._hands.end(child, Kill("drain", "the drain's deadline", now))
