"""What a child's end means: counters folded, claims reported, its slot free, its seat wiser."""

from __future__ import annotations

import signal
import time
from typing import Any, Final

from stoker import logs
from stoker.errors import CONFIG, KILLED
from supervisor.drain import Stage
from supervisor.hands import Hands
from supervisor.house import House
from supervisor.notices import compose
from supervisor.policy import after_death, left_in_order
from supervisor.records import Child, Exit, State
from supervisor.totals import read_counters, read_durations
from worker_proc.board import RunKey, Slot, SlotState, SlotWord, Word
from worker_proc.messages import ChildDied, How

log = logs.get("supervisor")

FAULTS: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})


def bury(house: House, hands: Hands, child: Child, end: Exit) -> None:
    """Settle a child's death in every book."""
    stack = _autopsy(house, hands, child, end)
    place = house.place(child)
    executing = [run.key for run in place.executing()]
    clean = child.closed is not None and end.code == 0 and not executing
    how = how_it_died(child, end, house.drain.stage)
    if child.role == "keeper":
        cap_trust(house)
    elif child.booted and not (clean and house.drain.stopping):
        # Even one that settled everything may have a claim its server commits late; a drain ends with a sweep of all.
        house.notices.open(_notice(house, child, end, how=how, executing=executing, stack=stack))
    if house.drain.stopping:
        _count_damage(house, child, end, ran=bool(executing))
    if not house.drain.stopping or (child.role == "keeper" and not child.close_sent):
        _remember(house, child, end, how)
    house.ledger.exited(child)
    _empty(house, child, place)
    expected = clean or (house.drain.stopping and end.code == 0)
    # A run keeps it with its attempt.
    _tell(child, end, expected=expected, stack="" if executing else stack)


def forget(house: House, hands: Hands, child: Child) -> None:
    """A child that was named and never lived: nobody is to blame, least of all its seat."""
    hands.part(child)
    place = house.place(child)
    house.ledger.exited(child)
    _empty(house, child, place)


def _autopsy(house: House, hands: Hands, child: Child, end: Exit) -> str:
    """Note what it died of, as far as the system can tell; returns the stacks that were its last words."""
    left = hands.part(child)
    if end.signal:
        # One that computes may die of the request for its stacks: they are read while they change.
        child.kill = child.kill or child.asked
    end.oom = end.signal == signal.SIGKILL and not child.kill and house.oom.claim(time.monotonic_ns())
    return left if end.signal in FAULTS or (end.signal and child.asked) else ""


def _notice(house: House, child: Child, end: Exit, *, how: How, executing: list[RunKey], stack: str) -> ChildDied:
    place = house.place(child)
    return compose(
        child,
        end,
        how=how,
        runs=executing if how in ("drain", "timeout", "cancel") else list(place.blameable()),
        executing=executing,
        host=house.host,
        backend_pid=place[SlotWord.BACKEND_PID],
        stack=stack,
    )


def cap_trust(house: House) -> None:
    """Nobody renews the lease until there is another keeper."""
    # Its session lock went with it, whether it said so or not; 0 would mean no cap.
    house.board[Word.TRUST_CAP] = max(1, house.board[Word.TRUSTED_UNLOCKED])


def _remember(house: House, child: Child, end: Exit, how: How) -> None:
    after_death(child, end, time.monotonic_ns(), limits=house.limits)
    child.seat.restarts += 1
    house.restarts[child.role, _reason(child, end, how)] += 1
    if end.code == CONFIG and not child.seat.ever_ready and child.generation == 1:
        house.ledger.refused = child.error or f"{child.seat.name} refused to start"


def _empty(house: House, child: Child, place: Slot) -> None:
    if child.role == "worker":
        house.totals = house.totals.copy()
        house.totals.add(child.seat.queue, read_counters(place, house.names.table), read_durations(place))
    # Readers add living slots to these totals: the picture changes before the slot does, so no number goes down.
    house.publish()
    place.reset(generation=0, claim_no=0)
    place[SlotWord.STATE] = SlotState.EMPTY


def how_it_died(child: Child, end: Exit, stage: Stage) -> How:
    """A kill we chose says how; otherwise any end after `Close` belongs to the drain, a child's own one included."""
    if child.kill:
        return child.kill.how
    own_deadline = child.state is State.DRAINING and end.code == KILLED
    return "drain" if stage >= Stage.CLOSING or child.close_sent or own_deadline else "crash"


def _reason(child: Child, end: Exit, how: How) -> str:
    if left_in_order(child, end) and not child.kill:
        return "retired"
    return how if child.ready_at else "boot"


def _count_damage(house: House, child: Child, end: Exit, *, ran: bool) -> None:
    if child.closed and child.closed.abandoned:
        house.lost.append(f"{child.seat.name} abandoned {child.closed.abandoned} runs")
    elif not child.booted:
        return
    elif end.code == KILLED or (child.kill and child.kill.how == "drain") or (ran and child.close_sent):
        house.lost.append(f"{child.seat.name} had to be ended")


def _tell(child: Child, end: Exit, *, expected: bool, stack: str) -> None:
    facts: dict[str, Any] = {"child": child.seat.name, "slot": child.slot.number, "pid": end.pid}
    facts |= {"signal": end.signal} if end.signal else {"code": end.code}
    facts |= {"oom": True} if end.oom else {}
    if child.error:
        facts["error"] = child.error
    facts |= {"traceback": stack} if stack else {}
    log.event("child.exited", level="info" if expected or child.retiring else "warning", **facts)
    if child.seat.parked:
        log.error("slot.parked", child=child.seat.name, reason=child.seat.parked)
