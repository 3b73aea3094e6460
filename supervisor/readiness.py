"""Whether this host takes jobs, and if not, why not. Pure: snapshot + a few words of the board → reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from supervisor.records import State
from supervisor.snapshot import ChildView, SeatView, Snapshot

# A database that stalls or a keeper that is replaced must not take a host out of rotation.
STALL_NS: Final = 3_000_000_000
LOOP_STUCK_NS: Final = 10_000_000_000


def reasons(snapshot: Snapshot, *, now: int, draining: bool, trusted: bool) -> list[str]:
    """Why not; empty when every slot is ready, the host's lease is trusted and nothing drains."""
    found = []
    if draining or snapshot.stage:
        found.append("draining")
    if loop_is_stuck(snapshot, now):
        found.append("the supervisor's loop is stuck")
    if not snapshot.forking:
        found.append("the application is not imported yet")
    else:
        found += [f"{seat.name} {why}" for seat in snapshot.seats if (why := _why_not(seat, snapshot, now))]
    if not trusted:
        found.append("the host's lease is not trusted")
    return found


def loop_is_stuck(snapshot: Snapshot, now: int) -> bool:
    """True when the loop has not turned for long."""
    return now - snapshot.at > LOOP_STUCK_NS


def is_ready(child: ChildView | None, *, lease_ns: int, now: int) -> bool:
    """Whether this child does its work."""
    return child is not None and not next(_child_faults(child, lease_ns, now), "")


def _why_not(seat: SeatView, snapshot: Snapshot, now: int) -> str:
    # A keeper is replaced in a moment; what depends on it is the lease, and that is looked at by itself.
    if seat.role == "keeper" and now - seat.last_ready_at <= STALL_NS:
        return ""
    if seat.child:
        return next(_child_faults(seat.child, snapshot.lease_ns, now), "")
    return f"is parked: {seat.parked}" if seat.parked else "is not running"


def _child_faults(child: ChildView, lease_ns: int, now: int) -> Iterator[str]:
    waits_long = child.waiting and now - child.waiting_since > STALL_NS
    if waits_long or (child.waiting and not child.ready_at):
        yield f"waits for PostgreSQL: {child.waiting}"
    elif not child.ready_at:
        yield "is starting"
    elif child.state == State.DRAINING:
        yield "is draining"
    elif child.stopped:
        yield "is stopped by a signal"
    elif child.beat and now - child.beat > lease_ns:
        yield "gives no sign of life"
