"""What one lane has in hand: jobs that are claimed and not started, shared by the main thread and its clerk."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from stoker.drivers.base import Claimed, Holder
from worker_proc.board import Phase, Word
from worker_proc.control import Control
from worker_proc.desk import Desk
from worker_proc.linux import boottime_ns


class Hand:
    """`lock` is held while main begins a body or somebody takes what is unstarted: each sees all of the other's step.

    `locked`: held by row locks of the desk's open transaction, and not by leases.
    """

    def __init__(self, control: Control, desk: Desk) -> None:
        self._control = control
        self._desk = desk
        self.lock = threading.Lock()
        self.reserved: deque[Claimed] = deque()
        self.locked = False
        self.holder = Holder(0, 0)

    def accepting(self) -> bool:
        """True while nobody wants this process to stop."""
        return not self._control.stop_reason and self._control.board.words[Word.PHASE] == Phase.RUNNING

    def may_start(self) -> bool:
        """True while what is reserved is certainly still ours, and wanted."""
        if not self.accepting():
            return False
        board = self._control.board
        # A host that slept between claim and start may have been judged dead: what it leased runs elsewhere.
        return self.locked or (board[Word.HOST_ID] == self.holder.host and board.lease_trusted(boottime_ns()))

    def add_ahead(self, jobs: Sequence[Claimed]) -> None:
        """Take leased jobs, or give them back: among locked ones nobody would ask whether they are still ours."""
        with self.lock:
            if self.may_start() and not self.locked:
                self.reserved.extend(jobs)
            else:
                self._desk.let_go(jobs)

    def let_go(self) -> None:
        """Give back what is not started. The lock is held by the caller."""
        unstarted = [*self.reserved]
        self.reserved.clear()
        self._desk.let_go(unstarted)
