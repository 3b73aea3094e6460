"""What one run of the supervisor holds: board, ledger, totals, notices, drain. Built fresh for every run."""

from __future__ import annotations

import os
import selectors
import socket

from stoker.settings import Settings
from supervisor.drain import Drain
from supervisor.host_lock import HostLock
from supervisor.ledger import Child, Ledger
from supervisor.notices import Notices
from supervisor.policy import Limits
from supervisor.totals import Names, Totals
from worker_proc import board as shared
from worker_proc.messages import Gauges


class House:
    """The state everything in the supervisor works on. Only the loop's thread changes it."""

    def __init__(self, settings: Settings, *, lock: HostLock) -> None:
        self.settings = settings
        self.limits = Limits.of(settings)
        self.lock = lock
        self.board = shared.Board.create()
        self.places: dict[int, shared.Slot] = {}
        self.event_fds: dict[int, int] = {}
        self.ledger = Ledger(add_slot=self._add_slot)
        self.names = Names()
        self.totals = Totals()
        self.notices = Notices()
        self.drain = Drain(grace_s=settings.grace)
        self.selector = selectors.DefaultSelector()
        self.host = socket.gethostname()
        self.gauges = Gauges([])
        self.lost: list[str] = []
        self.exit_code: int | None = None
        self._arrange()

    def renew(self, settings: Settings, *, generation: int) -> None:
        """Want what new settings say, from children of a new generation."""
        self.settings = settings
        self.limits = Limits.of(settings)
        self.ledger.next_generation(generation)
        self._arrange()

    def place(self, child: Child) -> shared.Slot:
        """The child's words on the board."""
        return self.places[child.slot.offset]

    def in_flight(self) -> int:
        """Bodies executing now."""
        return sum(self.place(child)[shared.SlotWord.IN_FLIGHT] for child in self.ledger.workers())

    def close(self) -> None:
        """Give everything back; the lock file stays if somebody may still hold it."""
        self.selector.close()
        for fd in self.event_fds.values():
            os.close(fd)
        self.places.clear()
        self.board.close()
        self.lock.close()

    def _arrange(self) -> None:
        queues = self.settings.queues.items()
        self.ledger.arrange({name: (queue.processes, queue.concurrency) for name, queue in queues})

    def _add_slot(self, lanes: int) -> int:
        slot = self.board.add_slot(lanes)
        self.places[slot.offset] = slot
        self.event_fds[slot.offset] = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return slot.offset
