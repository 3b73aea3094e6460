"""What one run of the supervisor holds: board, ledger, totals, notices, drain. Built fresh for every run."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections import Counter
from pathlib import Path

from stoker.settings import Settings
from stoker.settings.cgroups import memory_events as find_memory_events
from supervisor.drain import Drain
from supervisor.host_lock import HostLock
from supervisor.ledger import Ledger
from supervisor.notices import Notices
from supervisor.oom import OomWatch
from supervisor.policy import Limits
from supervisor.records import Child
from supervisor.snapshot import Snapshot, view_child, view_seat
from supervisor.totals import Names, Totals
from worker_proc import board as shared
from worker_proc.messages import Gauges


class House:
    """The state everything in the supervisor works on. Only the loop's thread changes it."""

    def __init__(self, settings: Settings, *, lock: HostLock, memory_events: Path | None = None) -> None:
        self.settings = settings
        self.limits = Limits.of(settings)
        self.lock = lock
        self.oom = OomWatch(memory_events or find_memory_events())
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
        self.finished = self.interrupted = 0
        self.exit_code: int | None = None
        self.restarts: Counter[tuple[str, str]] = Counter()
        self.forking = False
        self._arrange()
        self.snapshot = self._picture()

    def publish(self) -> None:
        """Let other threads see how things are now."""
        self.snapshot = self._picture()

    def renew(self, settings: Settings, *, generation: int) -> None:
        """Want what new settings say, from children of a new generation."""
        self.settings = settings
        self.limits = Limits.of(settings)
        self.drain.set_grace(settings.grace)
        self.ledger.next_generation(generation)
        self._arrange()

    def place(self, child: Child) -> shared.Slot:
        """The child's words on the board."""
        return self.places[child.slot.offset]

    def in_flight(self) -> int:
        """Bodies executing now."""
        return sum(self.place(child)[shared.SlotWord.IN_FLIGHT] for child in self.ledger.workers())

    def close(self) -> None:
        """Give back every descriptor. The board stays mapped while a health request may still read it."""
        self.selector.close()
        lease_ended = self.board[shared.Word.HOST_ID] == 0
        for fd in (*self.event_fds.values(), self.board.fd):
            os.close(fd)
        self.lock.close(lease_ended=lease_ended)

    def _arrange(self) -> None:
        queues = self.settings.queues.items()
        self.ledger.arrange({name: (queue.processes, queue.concurrency) for name, queue in queues})

    def _picture(self) -> Snapshot:
        views = {child.claim_no: view_child(child, self.place(child)) for child in self.ledger.children.values()}
        return Snapshot(
            at=time.monotonic_ns(),
            stage=self.drain.stage,
            generation=self.ledger.generation,
            deadline=self.drain.budget.deadline,
            drain_started_at=self.drain.started_at,
            drain_reason=self.drain.reason,
            forking=self.forking,
            lease_ns=self.limits.lease,
            seats=tuple(view_seat(seat, views) for seat in self.ledger.seats if seat.wanted),
            children=tuple(views.values()),
            names=self.names.table,
            totals=self.totals,
            restarts=dict(self.restarts),
            gauges=self.gauges,
        )

    def _add_slot(self, lanes: int) -> int:
        slot = self.board.add_slot(lanes)
        self.places[slot.offset] = slot
        self.event_fds[slot.offset] = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return slot.offset
