"""The policy: ledger + now → what to do. Pure. Times are CLOCK_MONOTONIC ns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stoker.errors import CONFIG, GAVE_UP, OK
from stoker.settings import Settings
from supervisor.actions import Action, Ask, End, GiveUp, Retire, Spare, Spawn
from supervisor.backoff import delay_s
from supervisor.ledger import Ledger
from supervisor.records import Child, Exit, Kill, Seat, State
from worker_proc.messages import How

SHORT_LIFE_NS = 1_000_000_000
SHORT_LIVES_FREE = 3
IDLE_NS = 1_000_000_000
# Who is killed for what it does, and not for the time it is, leaves its stacks first.
LEAVE_STACKS = frozenset[How]({"timeout", "cancel", "stuck", "crash"})
STACK_NS = 100_000_000
STACK_REST_NS = 10_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers of the settings the policy needs, in ns."""

    boot: int
    lease: int
    kill_after: int
    max_boot_failures: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Take them from the settings."""
        return cls(
            _ns(settings.boot_deadline), _ns(settings.lease), _ns(settings.kill_after), settings.max_boot_failures
        )


def next_actions(
    ledger: Ledger,
    now: int,
    *,
    limits: Limits,
    stopping: bool,
    may_kill: bool = True,
    may_fork: bool = True,
    keeps_lease: bool = False,
) -> list[Action]:
    """Everything that is to be done now. `may_kill` is off for a round after the loop itself was away.

    `keeps_lease`: on the way down the host's lease still has to be held, or ended.
    """
    actions: list[Action] = []
    if may_kill:
        actions += _ends(ledger, now, limits)
    if not stopping:
        actions += _give_up(ledger)
        actions += _retirements(ledger, now)
        actions += _spawns(ledger, now) if may_fork else ()
    elif keeps_lease and may_fork:
        keepers = (seat for seat in ledger.seats if seat.role == "keeper")
        actions += [Spawn(seat) for seat in keepers if not seat.child and _may_fill(seat, now)]
    return actions


def next_look(ledger: Ledger, now: int, *, limits: Limits, stopping: bool) -> int | None:
    """When time alone may call for an action; None if it will not."""
    times: list[int] = []
    for child in ledger.children.values():
        if child.kill:
            continue
        times += [min(child.asked.at + STACK_NS, now + STACK_REST_NS)] if child.asked else []
        times += [] if child.booted else [child.boot_by]
        times += [child.leave_by, *(run.hard_deadline for run in child.look.runs)]
        times += [asked + limits.kill_after for asked in child.cancels.values()]
    if not stopping:
        times += [seat.retry_at for seat in ledger.seats if not seat.child and not seat.parked]
        times += [ledger.solos[queue].retry_at for queue in ledger.suspects_wait]
        times += [child.recycle_at for child in ledger.children.values() if not child.retiring]
        times += [child.ready_at + child.max_age for child in ledger.workers() if child.ready_at and child.max_age]
    return min((time for time in times if time > now), default=None)


def after_death(child: Child, end: Exit, now: int, *, limits: Limits) -> None:
    """Let the seat remember how its child fared: back-off, and parking after too many deaths before ready."""
    seat = child.seat
    if left_in_order(child, end):
        return
    if child.ready_at or child.waiting:
        seat.failures, seat.parked = 0, ""
        seat.short_lives = seat.short_lives + 1 if now - (child.ready_at or now) < SHORT_LIFE_NS else 0
        # A kill from outside or a bad job is no reason to wait; a row of them must not become a storm of forks.
        seat.retry_at = now + _ns(delay_s(seat.short_lives - SHORT_LIVES_FREE, cap_s=1.0))
        return
    seat.failures += 1
    seat.retry_at = now + _ns(delay_s(seat.failures))
    # A keeper that once worked is always worth another try: without it the host's lease ends.
    # So is a solo worker: somebody waits for it.
    is_needed = seat.solo or (seat.role == "keeper" and seat.ever_ready)
    if seat.failures >= limits.max_boot_failures and not is_needed:
        last = child.error or (child.kill.why if child.kill else end.words)
        seat.parked = f"died {seat.failures} times before it was ready, last with {last}"


def left_in_order(child: Child, end: Exit) -> bool:
    """Whether it was to go: it was told to, or it is a solo worker that found nothing more to do."""
    return child.retiring or (child.seat.solo and child.closed is not None and end.code == OK)


def _ends(ledger: Ledger, now: int, limits: Limits) -> Iterator[Ask | Spare | End]:
    for child in ledger.children.values():
        if child.kill:
            continue
        kill = _reason_to_end(child, now, limits)
        if kill is None:
            yield from [Spare(child)] if child.asked else []
        elif kill.how not in LEAVE_STACKS or _has_left_its_stacks(child, now):
            yield End(child, kill)
        elif not child.asked:
            yield Ask(child, kill)


def _has_left_its_stacks(child: Child, now: int) -> bool:
    """Nobody is waited for: who is stopped or has no processor is killed without."""
    if not child.asked:
        return False
    at_rest = child.look.stack > 0 and now >= child.look.stack_at + STACK_REST_NS
    return at_rest or now >= child.asked.at + STACK_NS


def _reason_to_end(child: Child, now: int, limits: Limits) -> Kill | None:
    late = frozenset(run.key for run in child.look.runs if 0 < run.hard_deadline <= now)
    if late:
        return Kill("timeout", "a run passed its hard deadline", now, late)
    running = {run.key for run in child.look.runs}
    deaf = frozenset(run for run, asked in child.cancels.items() if run in running and now >= asked + limits.kill_after)
    if deaf:
        return Kill("cancel", "a cancelled run did not end", now, deaf)
    if not child.booted and now >= child.boot_by:
        return Kill("crash", "did not boot in time", now)
    if child.leave_by and now >= child.leave_by:
        return Kill("drain", "did not leave in time", now)
    if child.kill_rss and child.look.rss > child.kill_rss:
        return Kill("memory", f"its memory of {child.look.rss:,} bytes is above kill_rss, {child.kill_rss:,}", now)
    if _is_stuck(child, now, limits):
        return Kill("stuck", "gave no sign of life and used no CPU", now)
    return None


def _is_stuck(child: Child, now: int, limits: Limits) -> bool:
    look = child.look
    if not child.booted or not look.beat or now - look.beat < limits.lease:
        return False
    return look.stopped or (not look.blocked and look.process_at - look.idle_since >= IDLE_NS)


def _give_up(ledger: Ledger) -> Iterator[GiveUp]:
    if ledger.refused:
        yield GiveUp(CONFIG, ledger.refused)
        return
    if ledger.stranded:
        yield GiveUp(GAVE_UP, ledger.stranded)
        return
    workers = ledger.worker_seats()
    keeper = next((seat for seat in ledger.seats if seat.role == "keeper"), None)
    if keeper and keeper.parked and not ledger.ever_ready:
        yield GiveUp(GAVE_UP, f"the keeper {keeper.parked}")
    elif workers and all(seat.parked and not seat.child for seat in workers) and not ledger.workers():
        yield GiveUp(GAVE_UP, f"no worker can run: {workers[0].name} {workers[0].parked}")


def _retirements(ledger: Ledger, now: int) -> Iterator[Retire]:
    for child in ledger.children.values():
        if not child.retiring and 0 < child.recycle_at <= now:
            yield Retire(child, "a signal of its own")
    for child in ledger.workers():
        if child.seat.solo and not child.retiring and child.generation < ledger.generation:
            yield Retire(child, "reload")
    for seat in ledger.seats:
        if not seat.wanted:
            yield from (Retire(child, "not wanted any more") for child in seat.children())
    keeper = ledger.keeper()
    workers_are_new = all(child.generation == ledger.generation for child in ledger.workers() if not child.retiring)
    if keeper and not keeper.retiring and keeper.generation < ledger.generation and workers_are_new:
        yield Retire(keeper, "reload")


def _spawns(ledger: Ledger, now: int) -> Iterator[Spawn]:
    overlapping = {seat.queue for seat in ledger.seats if seat.successor}
    overlapping |= {child.seat.queue for child in ledger.children.values() if child.retiring and not child.seat.solo}
    for seat in ledger.seats:
        if not _may_fill(seat, now):
            continue
        if not seat.child:
            yield Spawn(seat)
        elif seat.role == "worker" and seat.queue not in overlapping and _is_outworn(ledger, seat.child, now):
            overlapping.add(seat.queue)
            yield Spawn(seat)
    yield from (Spawn(seat) for seat in _missing_solos(ledger) if now >= seat.retry_at)


def _may_fill(seat: Seat, now: int) -> bool:
    return seat.wanted and not seat.parked and now >= seat.retry_at


def _missing_solos(ledger: Ledger) -> Iterator[Seat]:
    taken = {slot.queue for slot in ledger.solo_slots() if slot.child}
    yield from (ledger.solos[queue] for queue in sorted(ledger.suspects_wait - taken))


def _is_outworn(ledger: Ledger, child: Child, now: int) -> bool:
    """Whether this worker is to be replaced by a fresh one: after a reload, so many jobs, so long, so much memory."""
    if child.state is not State.READY and child.generation == ledger.generation:
        return False
    if child.generation < ledger.generation or child.slot.lanes != child.seat.lanes:
        return True
    done_enough = child.max_jobs is not None and child.look.runs_done >= child.max_jobs
    old_enough = child.max_age is not None and now >= child.ready_at + child.max_age
    return done_enough or old_enough or (child.max_rss is not None and child.look.rss >= child.max_rss)


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
