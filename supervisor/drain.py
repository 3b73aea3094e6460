"""The drain: one budget (late bound, earliest wins), the signal table, and the phases of going down. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

SECOND_SIGNAL_S: Final = 5.0
REPEAT_AFTER_S: Final = 1.0
# All must be over 2 s after the deadline, and ending the rest takes a moment on a busy machine.
KEEPER_EXTRA_S: Final = 1.2
KEEPER_LAST_S: Final = 0.2
UNBOOTED_S: Final = 1.0


class Stage(IntEnum):
    """How far the supervisor is on its way down."""

    RUNNING = 0
    STOP_ACCEPTING = 1
    CLOSING = 2
    KEEPER_CLOSING = 3
    DONE = 4


class Request(StrEnum):
    """What was asked for: a manual stop waits and aborts nothing, a termination has a deadline."""

    STOP = "stop"
    TERMINATE = "terminate"


@dataclass(slots=True)
class Budget:
    """When everything must be over. Unbound until somebody binds it; a later bind can only tighten."""

    deadline: int | None = None

    def bind(self, deadline: int) -> bool:
        """Set or tighten the deadline (CLOCK_MONOTONIC ns); True if it moved."""
        if self.deadline is not None and deadline >= self.deadline:
            return False
        self.deadline = deadline
        return True


@dataclass(frozen=True, slots=True)
class View:
    """What the drain has to know of the rest of the house."""

    workers: int
    unstopped: int
    in_flight: int
    keeper: bool
    notices: int
    # There is none, and one is to come: somebody has to end the host's lease.
    heir: bool = False


class Drain:
    """Takes the requests to go down and says which stage it is time for. Times are CLOCK_MONOTONIC ns."""

    def __init__(self, *, grace_s: float) -> None:
        self.set_grace(grace_s)
        self.budget = Budget()
        self.stage = Stage.RUNNING
        self.aborts = False
        self.reason = ""
        self.started_at = 0
        self._keeper_by: int | None = None
        self._alone_since: int | None = None
        self._terminations = 0
        self._last_termination = 0

    @property
    def stopping(self) -> bool:
        """True from the first request on; nothing is started any more."""
        return self.stage > Stage.RUNNING

    def set_grace(self, grace_s: float) -> None:
        """Take another grace; a deadline that is bound stays."""
        self._grace = _ns(grace_s)
        # The unwinding of bodies begins min(0.5 s, grace/10) before the deadline; nobody is asked to close before it.
        self._near = min(_ns(0.5), self._grace // 10)
        self._margin = min(_ns(0.2), self._grace // 25)

    def request(self, what: Request, reason: str, now: int) -> bool:
        """Ask to go down. True if that changed something: every child is to be told again."""
        begins = not self.stopping
        if begins:
            self.stage, self.started_at = Stage.STOP_ACCEPTING, now
        changed = self._terminate(now) if what is Request.TERMINATE else begins
        if changed and (begins or what is Request.TERMINATE):
            self.reason = reason
        return changed

    def worker_close_by(self) -> int:
        """The deadline for workers' `Close`, 0 = none."""
        return 0 if self.budget.deadline is None else max(1, self.budget.deadline - self._margin)

    def keeper_close_by(self) -> int:
        """The deadline for the keeper's `Close`."""
        return self._keeper_by or 0

    def advance(self, now: int, view: View) -> Stage:
        """Move on as far as the facts allow, and return the stage."""
        if self.stage is Stage.STOP_ACCEPTING and (self._is_near(now) or not (view.unstopped or view.in_flight)):
            self.stage = Stage.CLOSING
        if self.stage is Stage.CLOSING and not view.workers:
            self._alone_since = self._alone_since or now
            waits = view.notices > 0 if view.keeper else view.heir
            if not waits or now >= self._keeper_limit():
                self._begin_keeper(now)
        if self.stage is Stage.KEEPER_CLOSING and not view.keeper:
            self.stage = Stage.DONE
        return self.stage

    def kill_workers_at(self) -> int | None:
        """From when on living workers are killed."""
        return self.budget.deadline

    def kill_keeper_at(self) -> int | None:
        """From when on a living keeper is killed."""
        return None if self._keeper_by is None else self._keeper_by + _ns(KEEPER_LAST_S) // 2

    def next_look(self, now: int) -> int | None:
        """When time alone may change something."""
        times = [self.budget.deadline, self.kill_keeper_at()]
        if self.budget.deadline is not None:
            times.append(self.budget.deadline - self._near)
        if self._alone_since is not None:
            times.append(self._keeper_limit())
        return min((time for time in times if time is not None and time > now), default=None)

    def _terminate(self, now: int) -> bool:
        if self._terminations and now - self._last_termination < _ns(REPEAT_AFTER_S):
            return False
        self._terminations += 1
        self._last_termination = now
        patience = (self._grace, _ns(SECOND_SIGNAL_S), 0)[min(self._terminations, 3) - 1]
        moved = self.budget.bind(now + patience)
        if moved and self._keeper_by is not None:
            self._keeper_by = min(self._keeper_by, self._keeper_limit())
        begins_abort, self.aborts = not self.aborts, True
        return moved or begins_abort

    def _is_near(self, now: int) -> bool:
        return self.budget.deadline is not None and now >= self.budget.deadline - self._near

    def _keeper_limit(self) -> int:
        # A manual stop gives the work all the time it needs, but not a database that no longer answers.
        deadline = self.budget.deadline
        return ((self._alone_since or 0) + self._grace if deadline is None else deadline) + _ns(KEEPER_EXTRA_S)

    def _begin_keeper(self, now: int) -> None:
        self.stage = Stage.KEEPER_CLOSING
        self._keeper_by = max(self._keeper_limit(), now + _ns(KEEPER_LAST_S))


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
