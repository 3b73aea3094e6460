"""Solo workers: one per queue while suspects wait there, in a place of their own, missed by nobody."""

from dataclasses import replace

from supervisor.actions import GiveUp, Retire, Spawn
from supervisor.policy import after_death, next_look
from supervisor.records import Child, Exit, Look
from tests.supervisor.test_policy import LIMITS, House, S
from worker_proc.messages import Closed


def solos(house: House) -> list[str]:
    """Of which queues a solo worker is wanted now."""
    return [action.seat.queue for action in house.actions() if isinstance(action, Spawn) and action.seat.solo]


def solo(house: House, queue: str = "default") -> Child:
    house.ledger.ask_for_solos([queue])
    child = house.spawn(house.ledger.solos[queue])
    assert child
    house.ready(child)
    return child


def end_well(house: House, child: Child) -> None:
    child.closed = Closed(0, 0, 0)
    after_death(child, Exit(pid=child.pid, code=0, signal=None), house.now, limits=LIMITS)
    house.ledger.exited(child)


def test_one_is_born_when_suspects_wait_and_only_then() -> None:
    house = House(default=(2, 4), io=(1, 50))
    house.fill()
    assert solos(house) == []
    house.ledger.ask_for_solos(["io", "unknown"])
    assert solos(house) == ["io"]
    assert house.actions(stopping=True) == house.actions(may_fork=False) == []
    child = solo(house, "io")
    assert (child.seat.name, child.title) == ("worker io/solo", "stoker: worker io/solo")
    assert (child.role, child.slot.lanes, child.slot.solo) == ("worker", 1, True)
    house.ledger.ask_for_solos(["io", "default"])
    assert solos(house) == ["default"], "one per queue"


def test_it_ends_and_is_not_followed_by_another() -> None:
    house = House(default=(1, 4))
    house.fill()
    for _ in range(20):
        end_well(house, solo(house))
        assert house.actions() == []
        assert next_look(house.ledger, house.now, limits=LIMITS, stopping=False) is None
    house.ledger.ask_for_solos(["default"])
    assert solos(house) == ["default"], "and when it is needed again it need not wait"


def test_it_has_no_part_in_readiness_and_seats() -> None:
    house = House(default=(1, 4))
    house.fill()
    before = [seat.name for seat in house.ledger.seats]
    child = solo(house)
    assert [seat.name for seat in house.ledger.seats] == before
    assert child in house.ledger.workers()
    assert child.slot not in house.ledger.worker_slots()
    assert child.slot in house.ledger.solo_slots()


def test_recycling_and_a_solo_worker_do_not_wait_for_each_other() -> None:
    house = House(default=(1, 4))
    worker = house.fill()[1]
    alone = solo(house)
    worker.max_jobs, worker.look = 1, Look(runs_done=1)
    (recycling,) = [action for action in house.actions() if isinstance(action, Spawn)]
    successor = house.spawn(recycling.seat)
    assert successor
    house.ready(successor)
    house.ledger.retire(worker)
    house.die(alone)
    house.now += S
    house.ledger.ask_for_solos(["default"])
    assert solos(house) == ["default"], "while the old worker finishes what it holds"
    assert house.spawn(house.ledger.solos["default"])


def test_a_retiring_solo_worker_does_not_hold_up_recycling() -> None:
    house = House(default=(1, 1))
    worker = house.fill()[1]
    house.ledger.retire(solo(house))
    worker.look = replace(worker.look, runs_done=1)
    worker.max_jobs = 1
    assert [action.seat.name for action in house.actions() if isinstance(action, Spawn)] == ["worker default/0"]


def test_it_is_asked_for_again_while_it_dies_of_its_suspects() -> None:
    house = House(default=(1, 4))
    house.fill()
    pauses = []
    for _ in range(10):
        house.die(solo(house))
        house.ledger.ask_for_solos(["default"])
        seat = house.ledger.solos["default"]
        pauses.append(seat.retry_at - house.now)
        assert solos(house) == ([] if pauses[-1] > 0 else ["default"])
        if pauses[-1] > 0:
            assert next_look(house.ledger, house.now, limits=LIMITS, stopping=False) == seat.retry_at
            house.now = seat.retry_at
            assert solos(house) == ["default"]
    assert pauses[:3] == [0, 0, 0]
    assert max(pauses) <= S


def test_one_that_cannot_boot_backs_off_and_is_never_parked() -> None:
    house = House(default=(1, 4))
    house.fill()
    seat = house.ledger.solos["default"]
    for _ in range(10):
        house.ledger.ask_for_solos(["default"])
        house.now = max(house.now, seat.retry_at)
        child = house.spawn(seat)
        assert child
        house.die(child)
    assert not seat.parked
    assert seat.retry_at > house.now
    assert not any(isinstance(action, GiveUp) for action in house.actions())


def test_its_place_is_free_before_the_next_is_born() -> None:
    house = House(default=(1, 4))
    house.fill()
    child = solo(house)
    house.ledger.retire(child)
    house.ledger.suspects_wait = {"default"}
    assert solos(house) == []
    end_well(house, child)
    assert solos(house) == ["default"]


def test_a_reload_retires_it_and_a_queue_that_goes_needs_none() -> None:
    house = House(default=(1, 4), io=(1, 4))
    house.fill()
    child = solo(house)
    house.ledger.ask_for_solos(["io"])
    house.ledger.next_generation(2)
    house.ledger.arrange({"default": (1, 4)})
    assert child in [action.child for action in house.actions() if isinstance(action, Retire)]
    assert solos(house) == []
    house.ledger.retire(child)
    house.die(child)
    house.ledger.ask_for_solos(["default"])
    assert solos(house) == ["default"]
    assert solo(house).generation == 2
