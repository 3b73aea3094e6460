"""What children say, turned into transitions of the ledger and answers to the children."""

from __future__ import annotations

import time
from typing import Any, Final

from stoker import logs
from supervisor.hands import Hands
from supervisor.house import House
from supervisor.records import Child, State
from worker_proc.board import Word
from worker_proc.messages import (
    AcceptStopped,
    AnyMessage,
    Booted,
    Cancel,
    CancelRequested,
    Close,
    Closed,
    Died,
    Gauges,
    HostLost,
    Ready,
    Reaped,
    Recycle,
    StopAccepting,
    SuspectsWaiting,
    WaitingForDatabase,
)

log = logs.get("supervisor")

# A child that was told to stop by somebody else is often one of many, and the supervisor is told next.
SELF_STOPPED_NS: Final = 200_000_000


class Inbox:
    """Understands every message of a child."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.hands: Hands

    def take(self, child: Child, message: AnyMessage) -> None:
        """One message of one child."""
        match message:
            case Booted():
                self._house.ledger.booted(child)
            case Ready():
                self._ready(child)
            case WaitingForDatabase(error=error):
                if self._house.ledger.waits(child, error, time.monotonic_ns()):
                    log.warning("child.waiting", child=child.seat.name, pid=child.pid, error=error)
            case AcceptStopped():
                self._stopped(child)
            case Closed():
                child.closed = message
                self._house.finished += message.finished
                self._house.interrupted += message.interrupted
            case Died(error=error):
                child.error = error
            case _:
                self._from_keeper(message)

    def retire(self, child: Child, why: str) -> None:
        """Let a child finish what it holds and go."""
        log.event("child.retired", child=child.seat.name, pid=child.pid, reason=why)
        self._house.ledger.retire(child)
        self.hands.tell(child, Recycle())

    def _from_keeper(self, message: AnyMessage) -> None:
        match message:
            case Reaped(claim_no=claim_no):
                self._house.notices.settled(claim_no)
            case CancelRequested(job_id=job_id, reason=reason):
                self._cancel(job_id, reason)
            case SuspectsWaiting(queues=queues):
                self._house.ledger.ask_for_solos(queues)
            case Gauges():
                self._house.gauges = message
            case HostLost():
                self._host_lost()

    def _ready(self, child: Child) -> None:
        now = time.monotonic_ns()
        first, waited = not child.ready_at, bool(child.waiting)
        predecessor = self._house.ledger.ready(child, now)
        if child.role == "keeper":
            self._house.board[Word.TRUST_CAP] = 0
        if first:
            took = round((now - child.born_at) / 1e9, 3)
            facts: dict[str, Any] = {"slot": child.slot.number, "pid": child.pid, "took_s": took}
            log.event(f"{child.role}.ready", child=child.seat.name, **facts)
        elif waited:
            log.event("child.resumed", child=child.seat.name, pid=child.pid)
        if predecessor:
            self.retire(predecessor, "its successor is ready")

    def _stopped(self, child: Child) -> None:
        if not self._house.drain.stopping and not child.retiring:
            log.warning("child.stops", child=child.seat.name, pid=child.pid, reason="a signal of its own")
            soon = time.monotonic_ns() + SELF_STOPPED_NS
            if child.role == "keeper":
                # It goes on until it is told to go: should this become a drain, it is needed to the end.
                child.recycle_at = soon
            else:
                child.seat.retry_at = soon
                self._house.ledger.retire(child)
        self._house.ledger.drains(child)

    def _cancel(self, job_id: int, reason: str) -> None:
        for child in self._house.ledger.workers():
            for run in self._house.place(child).executing():
                if run.job_id == job_id and run.key not in child.cancels:
                    child.cancels[run.key] = time.monotonic_ns()
                    self.hands.tell(child, Cancel(job_id, run.run_no, reason))

    def _host_lost(self) -> None:
        now = time.monotonic_ns()
        leave_by = now + self._house.limits.kill_after
        workers = [child for child in self._house.ledger.workers() if child.state is not State.EXITED]
        log.error("host.lost", workers=len(workers), kill_after_s=self._house.settings.kill_after)
        for child in workers:
            child.leave_by = min(child.leave_by or leave_by, leave_by)
            if not child.retiring and not self._house.drain.stopping:
                self._house.ledger.retire(child)
            self.hands.tell(child, StopAccepting("this host was judged dead", signal=True))
            child.close_sent = True
            self.hands.tell(child, Close(leave_by))
