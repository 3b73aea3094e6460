"""What the keeper says of itself: waiting for the database, or ready from the moment it has renewed the lease."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from stoker import logs
from worker_proc.board import SlotState, SlotWord
from worker_proc.control import Control
from worker_proc.host_lease import HostLease
from worker_proc.messages import Message, Ready, WaitingForDatabase

# A reconnect that takes no longer is nobody's business.
UNNOTICED_S: Final = 2.0

log = logs.get("keeper")


class Announcing:
    """A duty right after the lease: a start waits for it, and for none of the duties behind it."""

    name = "announcing"

    def __init__(self, control: Control, *, lease: HostLease, tell: Callable[[Message], None]) -> None:
        self._control = control
        self._lease = lease
        self._tell = tell
        self._said = ""
        self._down_since = 0.0

    @property
    def due_at(self) -> float:
        """At once while there is news."""
        return 0.0 if self._said != "ready" and self._lease.held else math.inf

    def run(self) -> None:
        """Say that it is ready."""
        self._said = "ready"
        self._set_state(SlotState.READY)
        self._tell(Ready())

    def connected(self) -> None:
        """The session is there again."""
        self._down_since = 0.0

    def lost(self) -> None:
        """The session is gone."""
        self._down_since = time.monotonic()

    def waiting(self, place: str, error: str) -> None:
        """The session cannot be opened; said once, and not at all while the last one is only just gone."""
        if self._said == "waiting" or (self._said and time.monotonic() - self._down_since < UNNOTICED_S):
            return
        self._said = "waiting"
        log.warning("database.waiting", place=place, error=error)
        self._set_state(SlotState.WAITING_FOR_DATABASE)
        self._tell(WaitingForDatabase(error[:1000]))

    def _set_state(self, state: SlotState) -> None:
        if not self._control.stopping:
            self._control.slot[SlotWord.STATE] = state
