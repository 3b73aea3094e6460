"""Births and deaths as the system reports them, matched with the children the ledger knows."""

from __future__ import annotations

import time

from stoker import logs
from supervisor.backoff import AGAIN_NS, SHORTAGE_NS
from supervisor.deaths import bury, forget
from supervisor.forkers import Forkers
from supervisor.hands import Hands, kill_group
from supervisor.house import House
from supervisor.reaping import collect
from supervisor.records import Exit
from worker_proc.messages import AnyMessage, Forked, ForkFailed

log = logs.get("supervisor")


class Arrivals:
    """Knows who was born, who ended, and keeps the ends of those whose birth was not reported yet."""

    def __init__(self, house: House, hands: Hands) -> None:
        self._house = house
        self._hands = hands
        self._early: dict[int, Exit] = {}

    def reply(self, message: AnyMessage) -> None:
        """What a fork server says about a child."""
        match message:
            case Forked(claim_no=claim_no, pid=pid):
                self._born(claim_no, pid)
            case ForkFailed(claim_no=claim_no, error=error):
                # Out of processes, descriptors or memory: it may pass.
                self._not_born(claim_no, error, again_in=SHORTAGE_NS)

    def unborn(self, claim_no: int) -> None:
        """The fork server ended before it answered; without its word the child never does anything."""
        self._not_born(claim_no, "the fork server ended", again_in=AGAIN_NS)

    def collect(self, forkers: Forkers) -> None:
        """Reap whoever has ended."""
        forkers.hear()
        for end in collect(lambda pid: self._house.ledger.by_pid(pid) is not None):
            if forkers.exited(end):
                continue
            if child := self._house.ledger.by_pid(end.pid):
                bury(self._house, self._hands, child, end)
            elif forkers.has_open_request:
                self._early[end.pid] = end
        if not forkers.has_open_request:
            self._early.clear()

    def _born(self, claim_no: int, pid: int) -> None:
        child = self._house.ledger.children[claim_no]
        child.pid = pid
        if child.kill:
            kill_group(pid)
        if end := self._early.pop(pid, None):
            bury(self._house, self._hands, child, end)

    def _not_born(self, claim_no: int, error: str, *, again_in: int) -> None:
        if child := self._house.ledger.children.get(claim_no):
            log.error("child.not_forked", child=child.seat.name, error=error)
            forget(self._house, self._hands, child)
            child.seat.retry_at = time.monotonic_ns() + again_in
