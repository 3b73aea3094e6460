"""Pure: which hosts are dead, from what one observer saw of their renewals on its own clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from worker_proc.host_lease import Windows

# Between two of the observer's own renewals; after a longer gap it starts to watch anew.
GAP_NS: Final = 3_000_000_000


class SeenHost(Struct, frozen=True):
    """Another host's row, and whether its session lock is in pg_locks."""

    id: int
    renewals: int
    locked: bool
    hostname: str
    machine: str
    lock_path: str
    lock_inode: str


@dataclass(frozen=True, slots=True)
class _Mark:
    renewals: int
    moved_at: int


class Observer:
    """Watches renewals move. Times are CLOCK_BOOTTIME ns of this host; no other clock is looked at.

    A host is dead when it did not move for the unlocked window and its lock is gone, or for a whole lease. Only time
    during which the observer itself renewed without a gap counts: a database that stood still is nobody's death.
    """

    def __init__(self, windows: Windows, *, gap: int = GAP_NS) -> None:
        self._windows = windows
        self._gap = gap
        self._marks: dict[int, _Mark] = {}
        self._own = 0
        self._gapless_since = 0

    def renewed(self, at: int) -> None:
        """The observer's own last renewal was asked for at that time."""
        if not self._own or at - self._own > self._gap:
            self._gapless_since = at
        self._own = at

    def judge(self, hosts: Iterable[SeenHost], *, asked_at: int, answered_at: int) -> list[SeenHost]:
        """The dead among the hosts of one answer of the database."""
        marks, dead = {}, []
        for host in hosts:
            mark = self._marks.get(host.id)
            if mark is None or mark.renewals != host.renewals:
                mark = _Mark(host.renewals, answered_at)
            marks[host.id] = mark
            window = self._windows.locked if host.locked else self._windows.unlocked
            if asked_at - self._own <= self._gap and asked_at - max(mark.moved_at, self._gapless_since) >= window:
                dead.append(host)
        self._marks = marks
        return dead
