"""The immutable picture of the house that other threads may look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from supervisor.drain import Stage
from supervisor.records import Child, Seat
from supervisor.totals import Totals
from worker_proc.board import Slot, SlotWord
from worker_proc.messages import Gauges


@dataclass(frozen=True, slots=True)
class ChildView:
    """A child and where its words are. Times are CLOCK_MONOTONIC ns, 0 = not yet."""

    claim_no: int
    name: str
    slot: int
    pid: int
    state: str
    generation: int
    place: Slot
    ready_at: int
    waiting: str
    waiting_since: int
    beat: int
    stopped: bool
    rss: int
    retiring: bool
    role: str
    queue: str


@dataclass(frozen=True, slots=True)
class SeatView:
    """A child that should exist, and how far it is from existing."""

    name: str
    role: str
    queue: str
    parked: str
    restarts: int
    failures: int
    retry_at: int
    last_ready_at: int
    child: ChildView | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment (CLOCK_MONOTONIC ns). The `place` of a child may be read live while it is its own."""

    at: int
    stage: Stage
    generation: int
    deadline: int | None
    drain_started_at: int
    drain_reason: str
    forking: bool
    lease_ns: int
    seats: tuple[SeatView, ...]
    children: tuple[ChildView, ...]
    names: tuple[str, ...]
    totals: Totals
    restarts: dict[tuple[str, str], int] = field(default_factory=dict)
    gauges: Gauges = field(default_factory=lambda: Gauges([]))


def in_flight(snapshot: Snapshot) -> Counter[str]:
    """Executing bodies per queue."""
    numbers: Counter[str] = Counter({seat.queue: 0 for seat in snapshot.seats if seat.queue})
    for child in snapshot.children:
        if child.queue:
            numbers[child.queue] += child.place[SlotWord.IN_FLIGHT]
    return numbers


def view_child(child: Child, place: Slot) -> ChildView:
    """The picture of one child."""
    return ChildView(
        claim_no=child.claim_no,
        name=child.seat.name,
        slot=child.slot.number,
        pid=child.pid,
        state=str(child.state),
        generation=child.generation,
        place=place,
        ready_at=child.ready_at,
        waiting=child.waiting,
        waiting_since=child.waiting_since,
        beat=child.look.beat,
        stopped=child.look.stopped,
        rss=child.look.rss,
        retiring=child.retiring,
        role=child.role,
        queue=child.seat.queue,
    )


def view_seat(seat: Seat, views: dict[int, ChildView]) -> SeatView:
    """The picture of one seat."""
    child = views.get(seat.child.claim_no) if seat.child else None
    return SeatView(
        name=seat.name,
        role=seat.role,
        queue=seat.queue,
        parked=seat.parked,
        restarts=seat.restarts,
        failures=seat.failures,
        retry_at=seat.retry_at,
        last_ready_at=seat.last_ready_at,
        child=child,
    )


def as_status(snapshot: Snapshot, now: int) -> dict[str, Any]:
    """The ledger for `/status`: no settings, no addresses, nothing secret."""
    deadline = snapshot.deadline
    return {
        "phase": snapshot.stage.name.lower(),
        "deadline_left_s": None if deadline is None else round((deadline - now) / 1e9, 3),
        "reason": snapshot.drain_reason or None,
        "generation": snapshot.generation,
        "seats": [_seat_status(seat, now) for seat in snapshot.seats],
        "slots": [_child_status(child, now) for child in snapshot.children],
    }


def _seat_status(seat: SeatView, now: int) -> dict[str, Any]:
    return {
        "name": seat.name,
        "role": seat.role,
        "queue": seat.queue or None,
        "pid": seat.child.pid if seat.child else None,
        "state": "parked" if seat.parked else seat.child.state if seat.child else "empty",
        "parked": seat.parked or None,
        "restarts": seat.restarts,
        "boot_failures": seat.failures,
        "retry_in_s": round(max(0, seat.retry_at - now) / 1e9, 3) if not seat.child else None,
    }


def _child_status(child: ChildView, now: int) -> dict[str, Any]:
    return {
        "slot": child.slot,
        "name": child.name,
        "role": child.role,
        "queue": child.queue or None,
        "pid": child.pid,
        "state": "retiring" if child.retiring else child.state,
        "generation": child.generation,
        "claim_no": child.claim_no,
        "waiting": child.waiting or None,
        "beat_age_s": round((now - child.beat) / 1e9, 3) if child.beat else None,
        "rss_bytes": child.rss,
    }
