"""What keeps a host from being ready, and what does not."""

from dataclasses import replace
from typing import Any

from supervisor.drain import Stage
from supervisor.readiness import STALL_NS, reasons
from supervisor.snapshot import ChildView, SeatView, Snapshot, as_status
from supervisor.totals import Totals

S = 1_000_000_000
NOW = 1_000 * S


def child(**facts: Any) -> ChildView:
    known = ChildView(
        claim_no=1, name="worker q/0", slot=1, pid=4711, state="ready", generation=1, place=None, ready_at=NOW - 60 * S,  # type: ignore[arg-type]
        waiting="", waiting_since=0, beat=NOW - S, stopped=False, rss=1, retiring=False, role="worker", queue="q",
    )  # fmt: skip
    return replace(known, **facts)


def seat(occupant: ChildView | None, parked: str = "") -> SeatView:
    return SeatView("worker q/0", "worker", "q", parked, 0, 0, 0, 0, occupant)


def snapshot(*seats: SeatView, **facts: Any) -> Snapshot:
    known = Snapshot(
        at=NOW, stage=Stage.RUNNING, generation=1, deadline=None, drain_started_at=0, drain_reason="", forking=True,
        lease_ns=30 * S, seats=seats, children=tuple(seat.child for seat in seats if seat.child), names=(),
        totals=Totals(),
    )  # fmt: skip
    return replace(known, **facts)


def why(*seats: SeatView, draining: bool = False, trusted: bool = True, **facts: Any) -> list[str]:
    return reasons(snapshot(*seats, **facts), now=NOW, draining=draining, trusted=trusted)


def test_everything_is_well() -> None:
    assert why(seat(child())) == []


def test_each_thing_that_is_missing_is_named() -> None:
    assert why(seat(None)) == ["worker q/0 is not running"]
    assert why(seat(None, "died 5 times")) == ["worker q/0 is parked: died 5 times"]
    assert why(seat(child(ready_at=0, state="starting"))) == ["worker q/0 is starting"]
    assert why(seat(child(stopped=True))) == ["worker q/0 is stopped by a signal"]
    assert why(seat(child(beat=NOW - 31 * S))) == ["worker q/0 gives no sign of life"]
    assert why(seat(child(state="draining"))) == ["worker q/0 is draining"]
    assert why(seat(child()), trusted=False) == ["the host's lease is not trusted"]
    assert why(seat(child()), draining=True) == ["draining"]
    assert why(seat(child()), stage=Stage.CLOSING) == ["draining"]
    assert why(seat(child()), forking=False) == ["the application is not imported yet"]
    assert why(seat(child()), at=NOW - 11 * S) == ["the supervisor's loop is stuck"]


def test_a_database_that_stalls_for_a_moment_changes_nothing() -> None:
    waiting = child(waiting="no answer", waiting_since=NOW - STALL_NS)
    assert why(seat(waiting)) == []
    assert why(seat(replace(waiting, waiting_since=NOW - STALL_NS - 1))) == [
        "worker q/0 waits for PostgreSQL: no answer"
    ]
    assert why(seat(replace(waiting, ready_at=0))) == ["worker q/0 waits for PostgreSQL: no answer"]


def test_a_keeper_that_is_replaced_changes_nothing() -> None:
    keeper = replace(seat(None), role="keeper", name="keeper", queue="", last_ready_at=NOW - STALL_NS)
    assert why(keeper) == []
    assert why(replace(keeper, last_ready_at=NOW - STALL_NS - 1)) == ["keeper is not running"]
    assert why(replace(seat(None), last_ready_at=NOW)) == ["worker q/0 is not running"]


def test_a_handler_that_keeps_the_gil_for_a_while_changes_nothing() -> None:
    assert why(seat(child(beat=NOW - 29 * S))) == []


def test_the_status_says_how_long_is_left() -> None:
    status = as_status(snapshot(seat(None, "x"), deadline=NOW + 2 * S, stage=Stage.CLOSING), NOW)
    assert (status["phase"], status["deadline_left_s"]) == ("closing", 2.0)
    assert status["seats"][0]["state"] == "parked"
