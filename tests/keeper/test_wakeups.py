"""Whom the keeper wakes when a queue has work."""

import os

import pytest

from tests.keeper.rig import Host, Queue
from tests.support import HANGS_S, until
from worker_proc import wakeups
from worker_proc.board import SlotWord
from worker_proc.messages import Ready
from worker_proc.rota import FAR
from worker_proc.wakeups import PATIENCE_S, Chain


class FakeSeats:
    """Workers that claim when the test says so."""

    def __init__(self, workers: int) -> None:
        self.busy: set[int] = set()
        self.claimed = [0] * workers
        self.full = [False] * workers

    def idle(self) -> list[int]:
        return [worker for worker in range(len(self.claimed)) if worker not in self.busy]

    def claims(self, worker: int) -> int:
        return self.claimed[worker]

    def more(self, worker: int) -> bool:
        return self.full[worker]

    def claim(self, worker: int, *, full: bool) -> None:
        self.claimed[worker] += 1
        self.full[worker] = full
        self.busy.add(worker)


def chain(workers: int) -> tuple[Chain, FakeSeats]:
    seats = FakeSeats(workers)
    return Chain(seats), seats


def test_one_notification_wakes_one_worker() -> None:
    wake, seats = chain(3)
    assert wake.step(0.0) is None
    wake.hear()
    assert wake.step(0.0) == 0
    assert wake.step(0.001) is None
    seats.claim(0, full=False)
    assert wake.step(0.002) is None
    assert not wake.active


def test_the_next_one_is_woken_when_no_claim_follows() -> None:
    wake, _ = chain(3)
    wake.hear()
    assert wake.step(0.0) == 0
    assert wake.step(PATIENCE_S - 0.001) is None
    assert wake.step(PATIENCE_S) == 1
    assert wake.step(2.5 * PATIENCE_S) == 2
    assert wake.step(4 * PATIENCE_S) is None
    assert not wake.active


def test_the_next_one_is_woken_at_once_when_the_claim_came_back_full() -> None:
    wake, seats = chain(3)
    wake.hear()
    wake.step(0.0)
    seats.claim(0, full=True)
    assert wake.step(0.001) == 1
    seats.claim(1, full=True)
    assert wake.step(0.002) == 2
    seats.claim(2, full=True)
    assert wake.step(0.003) is None
    assert not wake.active, "everybody is busy and claims by itself"


def test_many_notifications_while_one_is_awaited_count_once() -> None:
    wake, seats = chain(3)
    for _ in range(1000):
        wake.hear()
    assert wake.step(0.0) == 0
    for _ in range(1000):
        wake.hear()
    assert wake.step(0.001) is None
    seats.claim(0, full=False)
    assert wake.step(0.002) == 1, "what came after the claim needs another look"
    seats.claim(1, full=False)
    assert wake.step(0.003) is None
    assert not wake.active


def test_a_worker_that_claimed_and_is_idle_again_is_woken_again() -> None:
    wake, seats = chain(1)
    for at in range(3):
        wake.hear()
        assert wake.step(at) == 0
        seats.claim(0, full=False)
        seats.busy.clear()
        assert wake.step(at + 0.001) is None


def test_nobody_idle_nobody_woken() -> None:
    wake, seats = chain(2)
    seats.busy = {0, 1}
    wake.hear()
    assert wake.step(0.0) is None
    assert not wake.active


def test_a_notification_wakes_an_idle_worker_of_its_queue(host: Host, queue: Queue) -> None:
    boot = host.boot()
    host.worker_ready(0)
    host.worker_ready(1)
    boot.until_said(Ready)
    drain(host)
    queue.add(queue="other")
    boot.turn_for(0.1)
    assert not host.woken(0) and not host.woken(1)
    queue.add()
    boot.turn_until(lambda: host.woken(0))
    host.slots[0][SlotWord.MORE] = 0
    host.slots[0][SlotWord.CLAIMS] += 1
    boot.turn_for(0.1)
    assert not host.woken(1)


def test_the_board_says_who_is_idle_and_whether_there_is_more(host: Host, queue: Queue) -> None:
    boot = host.boot()
    host.worker_ready(0)
    host.worker_ready(1)
    boot.until_said(Ready)
    drain(host)
    host.slots[0][SlotWord.IN_FLIGHT] = 1
    queue.add()
    boot.turn_until(lambda: host.woken(1))
    host.slots[0][SlotWord.IN_FLIGHT] = 0
    host.slots[1][SlotWord.IN_FLIGHT] = host.slots[1][SlotWord.MORE] = 1
    host.slots[1][SlotWord.CLAIMS] += 1
    boot.turn_until(lambda: host.woken(0))


def test_workers_that_are_not_ready_are_not_woken(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    drain(host)
    queue.add()
    boot.turn_for(0.1)
    assert not host.woken(0) and not host.woken(1)


def drain(host: Host) -> None:
    """Forget the wake-up everybody gets when the session is new."""
    for at in range(len(host.slots)):
        host.woken(at)


def test_the_looks_for_an_answer_grow_rarer_and_the_last_is_when_patience_ends() -> None:
    wake, _ = chain(2)
    assert wake.next_look(7.0) == FAR
    wake.hear()
    wake.step(0.0)
    now, looks = 0.0, []
    while now < PATIENCE_S:
        assert wake.step(now) is None
        now = wake.next_look(now)
        looks.append(now)
    assert len(looks) <= 6 and looks[0] <= 0.002 and looks[-1] <= PATIENCE_S + 0.002
    assert wake.step(now) == 1


def test_who_is_to_be_woken_is_woken_before_anything_else_is_done(host: Host, queue: Queue) -> None:
    boot = host.boot()
    host.worker_ready(0)
    boot.until_said(Ready)
    drain(host)
    boot.keeper.wakeups.hear("default")
    assert host.woken(0)
    host.slots[0][SlotWord.CLAIMS] += 1
    boot.turn_until(lambda: boot.keeper.wakeups.due_at == FAR)
    queue.add()
    until(lambda: [boot.keeper.wait(1.0), host.woken(0)][1])


def test_a_notification_that_arrives_during_a_call_wakes_at_once(host: Host, queue: Queue) -> None:
    boot = host.boot()
    host.worker_ready(0)
    boot.until_said(Ready)
    drain(host)
    queue.add()
    with boot.keeper.session.limited() as db:
        until(lambda: [db.conn.execute("select 1"), host.woken(0)][1])


def test_many_notifications_wake_one_worker_once(host: Host, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = host.boot()
    host.worker_ready(0)
    host.worker_ready(1)
    boot.until_said(Ready)
    drain(host)
    # However long the machine takes, the patience with the first does not end.
    monkeypatch.setattr(wakeups, "PATIENCE_S", HANGS_S)
    for _ in range(50):
        boot.keeper.wakeups.hear("default")
    assert os.eventfd_read(host.wake_fds[0]) == 1
    assert not host.woken(1)
