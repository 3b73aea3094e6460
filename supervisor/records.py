"""Seats, slots and children as the ledger records them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from worker_proc.board import LaneRun, RunKey
from worker_proc.messages import Closed, How, Role


class State(StrEnum):
    """States of a child, in the order they are passed."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    EXITED = "exited"


@dataclass(slots=True)
class Slot:
    """A place on the board.

    A queue has one more than it has seats, for the overlap when a worker is replaced, and one for its solo worker.
    """

    number: int
    queue: str
    lanes: int
    offset: int
    solo: bool = False
    child: Child | None = None


@dataclass(slots=True)
class Seat:
    """A child that should exist: the n-th worker of a queue, or the keeper.

    A queue's `solo` seat is filled while jobs wait that have to run alone in a process; otherwise nobody misses it.
    """

    role: Role
    queue: str
    index: int
    lanes: int
    solo: bool = False
    wanted: bool = True
    failures: int = 0
    short_lives: int = 0
    retry_at: int = 0
    parked: str = ""
    restarts: int = 0
    ever_ready: bool = False
    last_ready_at: int = 0
    child: Child | None = None
    successor: Child | None = None

    @property
    def name(self) -> str:
        """`worker default/0`, `worker default/solo`, `keeper`."""
        return f"{self.role} {self.queue}/{'solo' if self.solo else self.index}" if self.queue else self.role

    @property
    def is_ready(self) -> bool:
        return self.child is not None and self.child.state is State.READY

    def children(self) -> Iterator[Child]:
        """The incumbent and its successor, as far as they live."""
        yield from (child for child in (self.child, self.successor) if child)


@dataclass(slots=True)
class Kill:
    """A decision of ours to end a child, and the runs it was about."""

    how: How
    why: str
    at: int
    runs: frozenset[RunKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a child the last time somebody looked. Times are CLOCK_MONOTONIC ns.

    `idle_since`: no CPU time was used since then; `stopped` and `blocked`: process states T and D. `rss` in bytes;
    `stack`: the bytes of its stacks, if asked for them, and since when it is that many.
    `peaks`: the most that was seen of it during each run that executes.
    """

    beat: int = 0
    runs: tuple[LaneRun, ...] = ()
    runs_done: int = 0
    process_at: int = 0
    stopped: bool = False
    blocked: bool = False
    cpu_s: float = 0.0
    idle_since: int = 0
    rss: int = 0
    stack: int = 0
    stack_at: int = 0
    peaks: Mapping[RunKey, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Child:
    """One incarnation: it never changes its seat, slot, generation or claim number. Times are CLOCK_MONOTONIC ns."""

    claim_no: int
    seat: Seat
    slot: Slot
    generation: int
    born_at: int
    boot_by: int
    max_jobs: int | None = None
    max_rss: int | None = None
    max_age: int | None = None
    kill_rss: int | None = None
    pid: int = 0
    state: State = State.STARTING
    booted: bool = False
    ready_at: int = 0
    waiting: str = ""
    waiting_since: int = 0
    retiring: bool = False
    close_sent: bool = False
    asked: Kill | None = None
    kill: Kill | None = None
    closed: Closed | None = None
    error: str = ""
    look: Look = field(default_factory=Look)
    cancels: dict[RunKey, int] = field(default_factory=dict)
    leave_by: int = 0
    recycle_at: int = 0

    @property
    def role(self) -> Role:
        return self.seat.role

    @property
    def title(self) -> str:
        """Of its process, and of its sessions at the database."""
        return f"stoker: {self.seat.name}"


@dataclass(slots=True)
class Exit:
    """How a process ended; `oom`: the kernel took it because memory had run out."""

    pid: int
    code: int | None
    signal: int | None
    oom: bool = False

    @property
    def words(self) -> str:
        return f"signal {self.signal}" if self.signal else f"exit code {self.code}"
