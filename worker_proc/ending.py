"""How a keeper ends: what it still waits for, and the end of the host's lease when nobody is left who could work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from worker_proc.board import Phase, Slot, SlotState, SlotWord, Word
from worker_proc.control import Control
from worker_proc.host_lease import HostLease
from worker_proc.link import Link
from worker_proc.reaping import Reaping, hand_back, holding

# Before the deadline at which the control thread ends the process.
_MARGIN_S: Final = 0.3
# Without a deadline.
_PATIENCE_S: Final = 5.0
# For a lease that cannot be ended because the database does not answer: others will judge the host.
_LEASE_PATIENCE_S: Final = 1.0


class Ending:
    """Deaths are settled for as long as there is time. The lease ends only after every worker; a keeper that is merely
    replaced leaves it to its successor, an orphaned one to the other hosts unless all workers end in time.
    """

    def __init__(
        self, control: Control, *, link: Link, lease: HostLease, reaping: Reaping, workers: Sequence[Slot]
    ) -> None:
        self._control = control
        self._link = link
        self._lease = lease
        self._reaping = reaping
        self._workers = workers
        self._began = time.monotonic()
        self.handed_back = 0

    def begin(self) -> None:
        """The drain starts now."""
        self._began = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether nothing more is to be done, or no time is left for it. Raises what the database calls raise."""
        now = time.monotonic()
        if now >= self._limit():
            return True
        if self._reaping.waiting:
            return False
        stopping = self._control.orphaned or self._control.board[Word.PHASE] != Phase.RUNNING
        if not (stopping and self._workers_gone()):
            return not self._control.orphaned
        if not self._lease.host_id or (not self._link.is_up and now - self._began >= _LEASE_PATIENCE_S):
            return True
        return self._link.is_up and self._end_lease()

    def _limit(self) -> float:
        deadline = self._control.close_deadline
        return deadline / 1e9 - _MARGIN_S if deadline else self._began + _PATIENCE_S

    def _workers_gone(self) -> bool:
        return not any(_may_live(slot) for slot in self._workers)

    def _end_lease(self) -> bool:
        host_id = self._lease.host_id
        with self._link.limited() as db:
            self.handed_back += hand_back(db, host_id, holding(db, host_id))
        return self._lease.give_back()


def _may_live(slot: Slot) -> bool:
    if slot[SlotWord.STATE] == SlotState.EMPTY:
        return False
    pid = slot[SlotWord.PID]
    return not pid or _lives(pid)


def _lives(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be reaped is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
