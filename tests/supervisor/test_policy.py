"""The policy on a ledger, with a time of our own: who is born, who is ended, who retires, when to give up."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from supervisor.actions import Action, Ask, End, GiveUp, Retire, Spare, Spawn
from supervisor.backoff import CAP_S, delay_s
from supervisor.ledger import Ledger
from supervisor.policy import STACK_NS, STACK_REST_NS, Limits, after_death, next_actions, next_look
from supervisor.records import Child, Exit, Look, Seat, State
from worker_proc.board import LaneRun

S = 1_000_000_000
LIMITS = Limits(boot=30 * S, lease=30 * S, kill_after=3 * S, max_boot_failures=3)
CRASH = Exit(pid=1, code=None, signal=9)


class House:
    """A ledger without processes."""

    def __init__(self, **queues: tuple[int, int]) -> None:
        offsets: Iterator[int] = iter(range(10_000))
        self.ledger = Ledger(add_slot=lambda lanes: next(offsets))
        self.ledger.arrange(queues)
        self.now = 100 * S

    def actions(self, **how: bool) -> list[Action]:
        return next_actions(self.ledger, self.now, limits=LIMITS, **{"stopping": False, **how})

    def fill(self) -> list[Child]:
        """Do every Spawn and have the children ready."""
        born = [child for action in self.actions() if isinstance(action, Spawn) and (child := self.spawn(action.seat))]
        for child in born:
            self.ready(child)
        return born

    def spawn(self, seat: Seat) -> Child | None:
        if (slot := self.ledger.free_slot(seat)) is None:
            return None
        child = self.ledger.spawn(seat, slot, self.now, boot_by=self.now + LIMITS.boot)
        child.pid = 1000 + child.claim_no
        return child

    def ready(self, child: Child) -> Child | None:
        self.ledger.booted(child)
        return self.ledger.ready(child, self.now)

    def die(self, child: Child) -> None:
        after_death(child, CRASH, self.now, limits=LIMITS)
        self.ledger.exited(child)

    def seat(self, queue: str, index: int = 0) -> Seat:
        return next(seat for seat in self.ledger.seats if (seat.queue, seat.index) == (queue, index))


def run(number: int = 1, *, hard: int = 0) -> LaneRun:
    return LaneRun(7, number, hard)


def ends(actions: list[Action]) -> list[tuple[str, int]]:
    """Who is killed, or asked for its stacks to be killed."""
    return [(action.kill.how, action.child.claim_no) for action in actions if isinstance(action, Ask | End)]


def test_every_seat_gets_a_child_and_the_keeper_comes_first() -> None:
    house = House(default=(2, 1), io=(1, 50))
    spawns = house.actions()
    assert [action.seat.name for action in spawns if isinstance(action, Spawn)] == [
        "keeper",
        "worker default/0",
        "worker default/1",
        "worker io/0",
    ]
    assert house.actions(stopping=True) == []
    assert house.actions(may_fork=False) == []
    house.fill()
    assert house.actions() == []


def test_claim_numbers_are_never_used_twice() -> None:
    house = House(default=(2, 1))
    seen = [child.claim_no for child in house.fill()]
    for child in list(house.ledger.children.values()):
        house.die(child)
    house.now += S
    seen += [child.claim_no for child in house.fill()]
    assert len(set(seen)) == 6


def test_deaths_before_ready_back_off_and_park() -> None:
    house = House(default=(1, 1))
    house.fill()
    house.die(house.seat("default").child or pytest.fail("no child"))
    seat = house.seat("default")
    pauses = []
    for _ in range(3):
        house.now = max(house.now, seat.retry_at)
        child = house.spawn(seat)
        assert child
        house.die(child)
        pauses.append(seat.retry_at - house.now)
    assert pauses == sorted(pauses)
    assert seat.parked.startswith("died 3 times before it was ready")
    house.now += 3600 * S
    assert [action for action in house.actions() if isinstance(action, Spawn)] == []


def test_ready_resets_the_back_off() -> None:
    house = House(default=(1, 1))
    seat = house.seat("default")
    for _ in range(2):
        house.now = max(house.now, seat.retry_at)
        child = house.spawn(seat)
        assert child
        house.die(child)
    house.now = seat.retry_at
    child = house.spawn(seat)
    assert child
    house.ready(child)
    assert seat.failures == 0
    house.now += 60 * S
    house.die(child)
    assert seat.retry_at <= house.now, "it is replaced at once"


def test_children_that_die_soon_after_ready_are_replaced_at_once_but_not_in_a_storm() -> None:
    house = House(default=(1, 1))
    seat = house.seat("default")
    pauses = []
    for _ in range(20):
        house.now = max(house.now, seat.retry_at)
        child = house.spawn(seat)
        assert child
        house.ready(child)
        house.die(child)
        pauses.append(seat.retry_at - house.now)
    assert pauses[:3] == [0, 0, 0]
    assert 0 < pauses[3] < pauses[5]
    assert 0.8 * S <= pauses[-1] <= S
    assert not seat.parked


def test_a_keeper_that_worked_is_never_parked_and_one_that_never_did_ends_it_all() -> None:
    house = House(default=(1, 1))
    keeper = house.seat("")
    for _ in range(3):
        child = house.spawn(keeper)
        assert child
        house.die(child)
    assert [action.code for action in house.actions() if isinstance(action, GiveUp)] == [70]
    house = House(default=(1, 1))
    house.fill()
    keeper = house.seat("")
    for _ in range(10):
        if child := keeper.child or house.spawn(keeper):
            house.die(child)
    assert not keeper.parked


def test_on_the_way_down_only_a_keeper_is_replaced_and_only_for_the_lease() -> None:
    house = House(default=(2, 1))
    for child in house.fill():
        house.die(child)
    assert house.actions(stopping=True) == []
    assert house.actions(stopping=True, keeps_lease=True, may_fork=False) == []
    keeper = house.seat("")
    assert house.actions(stopping=True, keeps_lease=True) == [Spawn(keeper)]
    house.spawn(keeper)
    assert house.actions(stopping=True, keeps_lease=True) == []


def test_giving_up_needs_every_worker_seat_parked() -> None:
    house = House(default=(2, 1))
    first, second = house.seat("default", 0), house.seat("default", 1)
    first.parked = "x"
    assert not any(isinstance(action, GiveUp) for action in house.actions())
    second.parked = "x"
    assert [action.code for action in house.actions() if isinstance(action, GiveUp)] == [70]
    assert not any(isinstance(action, GiveUp) for action in house.actions(stopping=True))


def test_a_boot_has_a_deadline_and_waiting_for_the_database_has_none() -> None:
    house = House(default=(1, 1))
    child = house.spawn(house.seat("default"))
    assert child
    assert next_look(house.ledger, house.now, limits=LIMITS, stopping=True) == child.boot_by
    house.now = child.boot_by
    assert ends(house.actions()) == [("crash", child.claim_no)]
    house.ledger.booted(child)
    house.ledger.waits(child, "nobody answers", house.now)
    house.now += 3600 * S
    assert ends(house.actions()) == []


def test_a_run_beyond_its_hard_deadline_ends_its_process() -> None:
    house = House(default=(1, 2))
    child = house.fill()[1]
    child.look = Look(runs=(run(1), run(2, hard=house.now + 1)))
    assert ends(house.actions()) == []
    assert next_look(house.ledger, house.now, limits=LIMITS, stopping=False) == house.now + 1
    house.now += 1
    kill = next(action.kill for action in house.actions(stopping=True) if isinstance(action, Ask))
    assert (kill.how, kill.runs) == ("timeout", frozenset({(7, 2)}))
    assert ends(house.actions(may_kill=False)) == []
    child.kill = kill
    assert ends(house.actions()) == [], "once"


def asked_for_its_stacks(house: House) -> Child:
    """A worker beyond the hard deadline of its run."""
    child = house.fill()[1]
    child.look = Look(runs=(run(1, hard=house.now),))
    (ask,) = house.actions()
    assert isinstance(ask, Ask)
    child.asked = ask.kill
    assert house.actions() == [], "once"
    return child


def test_who_is_asked_for_its_stacks_is_killed_a_little_later_whether_it_answers_or_not() -> None:
    house = House(default=(1, 1))
    child = asked_for_its_stacks(house)
    look = next_look(house.ledger, house.now, limits=LIMITS, stopping=True)
    assert look == house.now + STACK_REST_NS, "it may be there soon"
    house.now += STACK_NS - 1
    assert next_look(house.ledger, house.now, limits=LIMITS, stopping=True) == house.now + 1
    assert house.actions(stopping=True) == []
    house.now += 1
    (end,) = house.actions(stopping=True)
    assert isinstance(end, End)
    assert (end.child, end.kill.how, end.kill.runs) == (child, "timeout", frozenset({(7, 1)}))


def test_stacks_that_do_not_grow_any_more_are_enough() -> None:
    house = House(default=(1, 1))
    child = asked_for_its_stacks(house)
    house.now += STACK_REST_NS
    child.look = replace(child.look, stack=100, stack_at=house.now)
    assert house.actions() == []
    house.now += STACK_REST_NS
    assert [type(action) for action in house.actions()] == [End]


def test_a_run_that_ends_in_the_last_moment_spares_its_process() -> None:
    house = House(default=(1, 1))
    child = asked_for_its_stacks(house)
    child.look = Look()
    house.now += STACK_NS
    assert house.actions(may_kill=False) == []
    assert house.actions() == [Spare(child)]
    child.asked = None
    assert house.actions() == []
    child.look = Look(runs=(run(2, hard=house.now),))
    assert [type(action) for action in house.actions()] == [Ask], "the next one is asked again"


def test_who_is_killed_for_the_time_or_the_memory_is_not_asked() -> None:
    house = House(default=(1, 1))
    child = house.fill()[1]
    child.leave_by = house.now
    assert [type(action) for action in house.actions()] == [End]
    child.leave_by = 0
    child.kill_rss, child.look = 100, Look(rss=101)
    assert [type(action) for action in house.actions()] == [End]


def test_a_cancelled_run_has_kill_after_to_end() -> None:
    house = House(default=(1, 1))
    child = house.fill()[1]
    child.look = Look(runs=(run(1),))
    child.cancels[7, 1] = house.now
    house.now += LIMITS.kill_after - 1
    assert ends(house.actions()) == []
    house.now += 1
    assert ends(house.actions()) == [("cancel", child.claim_no)]
    child.look = Look(runs=(run(2),))
    assert ends(house.actions()) == [], "that run is over"


@pytest.mark.parametrize(
    ("look", "stuck"),
    [
        (Look(idle_since=1, process_at=2 * S), True),
        (Look(idle_since=1, process_at=2 * S, blocked=True), False),
        (Look(idle_since=2 * S, process_at=2 * S), False),
        (Look(idle_since=2 * S, process_at=2 * S, stopped=True), True),
    ],
    ids=["idle", "in the disk", "computing", "stopped"],
)
def test_stuck_is_silent_and_idle(look: Look, stuck: bool) -> None:
    house = House(default=(1, 1))
    child = house.fill()[1]
    child.look = replace(look, beat=house.now)
    house.now += LIMITS.lease - 1
    assert ends(house.actions()) == []
    house.now += 1
    assert ends(house.actions()) == ([("stuck", child.claim_no)] if stuck else [])


@pytest.mark.parametrize(("limit", "rss", "killed"), [(100, 101, True), (100, 100, False), (None, 1 << 40, False)])
def test_a_child_above_its_hard_limit_of_memory_is_killed(limit: int | None, rss: int, killed: bool) -> None:
    house = House(default=(1, 2))
    child = house.fill()[1]
    child.kill_rss, child.look = limit, Look(rss=rss, runs=(run(1), run(2)))
    actions = house.actions()
    assert ends(actions) == ([("memory", child.claim_no)] if killed else [])
    # Which of several bodies it was cannot be seen from outside.
    assert all(action.kill.runs == frozenset() for action in actions if isinstance(action, End))


def test_a_worker_that_cannot_live_below_its_limit_of_memory_is_parked_with_that_word() -> None:
    house = House(default=(1, 1))
    seat = house.seat("default")
    for _ in range(3):
        house.now = max(house.now, seat.retry_at)
        child = house.spawn(seat)
        assert child
        child.kill_rss, child.look = 100, Look(rss=300)
        [child.kill] = [action.kill for action in house.actions() if isinstance(action, End)]
        house.die(child)
    assert seat.parked.endswith("its memory of 300 bytes is above kill_rss, 100")


def test_recycling_by_age_waits_for_the_age_and_for_the_successor() -> None:
    house = House(default=(2, 1))
    _, first, second = house.fill()
    first.max_age, second.max_age = 60 * S, 65 * S
    assert next_look(house.ledger, house.now, limits=LIMITS, stopping=False) == house.now + 60 * S
    house.now += 60 * S - 1
    assert house.actions() == []
    house.now += 1
    [spawn] = house.actions()
    assert isinstance(spawn, Spawn) and spawn.seat is first.seat
    successor = house.spawn(first.seat)
    house.now += 5 * S
    assert house.actions() == [], "one at a time: the other is due as well"
    assert first.state is State.READY, "the old one works until the new one is ready"
    assert successor and house.ready(successor) is first
    house.ledger.retire(first)
    house.die(first)
    assert [action.seat for action in house.actions() if isinstance(action, Spawn)] == [second.seat]


def test_recycling_is_ready_before_retire_and_one_per_queue() -> None:
    house = House(default=(2, 1), io=(1, 1))
    _, first, second, other = house.fill()
    for child in (first, second, other):
        child.max_jobs = 10
        child.look = Look(runs_done=10)
    spawns = [action.seat for action in house.actions() if isinstance(action, Spawn)]
    assert [seat.name for seat in spawns] == ["worker default/0", "worker io/0"]
    successor = house.spawn(spawns[0])
    assert successor
    assert successor.slot is not first.slot
    assert not any(isinstance(a, Spawn) and a.seat.queue == "default" for a in house.actions())
    assert first.seat.child is first
    assert house.ready(successor) is first, "it retires now"
    house.ledger.retire(first)
    assert first.seat.child is successor
    assert not any(isinstance(a, Spawn) and a.seat.queue == "default" for a in house.actions()), "the slot is taken"
    house.die(first)
    assert [a.seat.name for a in house.actions() if isinstance(a, Spawn)] == ["worker default/1", "worker io/0"]


def test_a_successor_that_cannot_boot_leaves_the_incumbent() -> None:
    house = House(default=(1, 1))
    first = house.fill()[1]
    first.max_rss, first.look = 100, Look(rss=200)
    seat = first.seat
    for _ in range(3):
        house.now = max(house.now, seat.retry_at)
        child = house.spawn(seat)
        assert child
        house.die(child)
    assert seat.child is first
    assert seat.parked
    assert not any(isinstance(action, GiveUp) for action in house.actions())
    house.die(first)
    house.now += S
    assert any(isinstance(action, Spawn) for action in house.actions()), "an empty seat is worth new tries"


def test_an_incumbent_that_dies_is_followed_by_its_successor() -> None:
    house = House(default=(1, 1))
    first = house.fill()[1]
    first.max_jobs, first.look = 1, Look(runs_done=1)
    successor = house.spawn(first.seat)
    assert successor
    house.die(first)
    assert first.seat.child is successor
    assert house.ready(successor) is None


def test_a_reload_replaces_workers_first_and_the_keeper_last() -> None:
    house = House(default=(1, 1))
    keeper, worker = house.fill()
    house.ledger.next_generation(2)
    house.ledger.arrange({"default": (1, 1)})
    assert [type(action) for action in house.actions()] == [Spawn]
    successor = house.spawn(worker.seat)
    assert successor
    assert successor.generation == 2
    house.ready(successor)
    house.ledger.retire(worker)
    retire = [action for action in house.actions() if isinstance(action, Retire)]
    assert [action.child for action in retire] == [keeper]
    house.ledger.retire(keeper)
    assert house.spawn(house.seat("")) is None, "a host has one keeper"
    house.die(worker)
    house.die(keeper)
    assert house.spawn(house.seat(""))


def test_seats_that_are_not_wanted_any_more_empty_by_retirement() -> None:
    house = House(default=(2, 1))
    house.fill()
    house.ledger.arrange({"default": (1, 1)})
    retire = [action.child for action in house.actions() if isinstance(action, Retire)]
    assert [child.seat.name for child in retire] == ["worker default/1"]
    house.ledger.retire(retire[0])
    assert house.actions() == []
    house.die(retire[0])
    assert [seat.name for seat in house.ledger.seats] == ["keeper", "worker default/0"]


def test_other_lanes_need_other_slots() -> None:
    house = House(default=(1, 1))
    worker = house.fill()[1]
    house.ledger.arrange({"default": (1, 5)})
    assert [type(action) for action in house.actions()] == [Spawn]
    successor = house.spawn(worker.seat)
    assert successor
    assert successor.slot.lanes == 5
    house.ready(successor)
    assert worker.slot.lanes == 1


def test_states_only_go_forward() -> None:
    house = House(default=(1, 1))
    child = house.fill()[1]
    house.ledger.drains(child)
    house.ledger.ready(child, house.now)
    assert child.state is State.DRAINING
    house.die(child)
    house.ledger.drains(child)
    assert child.state is State.EXITED


def test_the_pauses_double_up_to_half_a_minute() -> None:
    assert [delay_s(n, roll=0) for n in range(5)] == [0, 0.1, 0.2, 0.4, 0.8]
    assert delay_s(10_000, roll=0) == CAP_S
    assert delay_s(10_000, roll=1) == pytest.approx(CAP_S * 0.8)
