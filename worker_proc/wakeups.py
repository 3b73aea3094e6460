"""Wakes idle workers when a queue has work: one, then the next for as long as the claims show that there is more."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from worker_proc.board import Board, SlotState, SlotWord
from worker_proc.messages import SlotRef
from worker_proc.rota import FAR

# How long a woken worker may take to claim before the next one is woken.
PATIENCE_S: Final = 0.02
# How soon to look whether it has.
LOOK_S: Final = 0.002


class Seats(Protocol):
    """The workers of one queue as the board shows them, by position."""

    def idle(self) -> list[int]:
        """Workers that are ready and have a free lane, the emptiest first."""

    def claims(self, worker: int) -> int:
        """How many claims it has made."""

    def more(self, worker: int) -> bool:
        """Whether its last claim came back full."""


@dataclass(slots=True)
class Chain:
    """One queue's wake-ups. Pure: told what was heard and what time it is, it says whom to wake."""

    seats: Seats
    _wanted: bool = False
    _last: int | None = None
    _claims: int = 0
    _since: float = 0.0
    _woken: set[int] = field(default_factory=set)

    @property
    def active(self) -> bool:
        """True while an answer is awaited, or work is known that nobody was woken for."""
        return self._wanted or self._last is not None

    def next_look(self, now: float) -> float:
        """When to call `step` next: soon after a wake-up, then ever later, at last when patience ends."""
        if not self.active:
            return FAR
        waited = now - self._since
        return now + max(LOOK_S, min(waited, PATIENCE_S - waited))

    def hear(self) -> None:
        """The queue has work that was not there before."""
        self._wanted = True

    def step(self, now: float) -> int | None:
        """Whom to wake now, if anybody."""
        if self._last is not None:
            answered = self.seats.claims(self._last) != self._claims
            if not answered and now - self._since < PATIENCE_S:
                return None
            if answered and not self.seats.more(self._last):
                self._end()
        if self._last is None:
            if not self._wanted:
                return None
            self._wanted = False
        return self._wake_next(now)

    def _wake_next(self, now: float) -> int | None:
        chosen = next((worker for worker in self.seats.idle() if worker not in self._woken), None)
        if chosen is None:
            # Those who are busy claim by themselves when they are done.
            self._end()
            return None
        self._last, self._claims, self._since = chosen, self.seats.claims(chosen), now
        self._woken.add(chosen)
        return chosen

    def _end(self) -> None:
        self._last = None
        self._woken.clear()


class BoardSeats:
    """Seats read from the board."""

    def __init__(self, board: Board, refs: Sequence[SlotRef]) -> None:
        self._slots = [board.slot(ref.offset, ref.lanes) for ref in refs]

    def idle(self) -> list[int]:
        """The emptiest first."""
        ready = [
            (slot[SlotWord.IN_FLIGHT], at)
            for at, slot in enumerate(self._slots)
            if slot[SlotWord.STATE] == SlotState.READY and slot[SlotWord.IN_FLIGHT] < slot.lanes
        ]
        return [at for _, at in sorted(ready)]

    def claims(self, worker: int) -> int:
        """The CLAIMS word."""
        return self._slots[worker][SlotWord.CLAIMS]

    def more(self, worker: int) -> bool:
        """The MORE word."""
        return bool(self._slots[worker][SlotWord.MORE])


class Wakeups:
    """The hands: one chain per queue of this host, and the eventfds of its workers."""

    name = "wake-ups"

    def __init__(self, board: Board, *, workers: Sequence[SlotRef], wake_fds: Sequence[int]) -> None:
        self._fds: dict[str, list[int]] = {}
        refs: dict[str, list[SlotRef]] = {}
        for ref, fd in zip(workers, wake_fds, strict=True):
            self._fds.setdefault(ref.queue, []).append(fd)
            refs.setdefault(ref.queue, []).append(ref)
        self._chains = {queue: Chain(BoardSeats(board, found)) for queue, found in refs.items()}
        self.due_at = FAR

    def hear(self, queue: str) -> None:
        """A queue has work: an idle worker is woken before this returns, unless one that was woken is awaited."""
        if chain := self._chains.get(queue):
            chain.hear()
            now = time.monotonic()
            self._step(queue, chain, now)
            self.due_at = min(self.due_at, chain.next_look(now))

    def run(self) -> None:
        """See in each queue whether the woken ones have claimed, and who is next."""
        now = time.monotonic()
        for queue, chain in self._chains.items():
            if chain.active:
                self._step(queue, chain, now)
        self.due_at = min((chain.next_look(now) for chain in self._chains.values()), default=FAR)

    def _step(self, queue: str, chain: Chain, now: float) -> None:
        if (chosen := chain.step(now)) is not None:
            os.eventfd_write(self._fds[queue][chosen], 1)

    def wake_all(self) -> None:
        """Notifications may have been missed: everybody looks for work."""
        for fds in self._fds.values():
            for fd in fds:
                os.eventfd_write(fd, 1)
