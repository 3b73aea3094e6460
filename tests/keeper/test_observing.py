"""Several hosts over one database: deaths, proofs, and the jobs they held."""

import time
from collections.abc import Callable

import pytest

from tests.keeper.rig import Boot, Host, Queue
from tests.support import HANGS_S
from worker_proc import observing
from worker_proc.messages import HostLost, Ready

MakeHost = Callable[..., Host]

# Judged after one second without a move, with or without the lock; trusted for 0.1 s of it less.
FAST = {"lease": 1.2, "renew_every": 0.05, "kill_after": 0.0}


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "EVERY_S", 0.05)


def elsewhere(queue: Queue, host: Host) -> None:
    """Let the host look as if it ran on another machine."""
    queue.conn.execute("update stoker.hosts set machine = 'another' where id = %s", (host.id,))


def booted(host: Host) -> Boot:
    boot = host.boot()
    boot.until_said(Ready)
    return boot


def turn_all(*boots: Boot, until: Callable[[], object], within: float = HANGS_S) -> None:
    deadline = time.monotonic() + within
    while not until():
        assert time.monotonic() < deadline
        for boot in boots:
            boot.keeper.turn()
            boot.listen()
        boots[0].keeper.wait(0.01)


def hosts(queue: Queue) -> set[int]:
    return {row[0] for row in queue.rows("select id from stoker.hosts")}


def test_two_observers_judge_a_dead_host_once_and_its_jobs_are_ready(make_host: MakeHost, queue: Queue) -> None:
    gone, first, second = (make_host(name, **FAST) for name in ("gone", "first", "second"))
    lost = booted(gone)
    elsewhere(queue, gone)
    jobs = queue.add(2)
    queue.claim(gone.id, 7)
    lost.close()
    observers = booted(first), booted(second)
    turn_all(*observers, until=lambda: queue.states() == {"ready": 2})
    assert hosts(queue) == {first.id, second.id}
    view = queue.view(jobs[0])
    assert (view.lost, view.attempt, view.crashes) == (1, 0, 0)
    assert view.attempts[0]["outcome"] == "lost"
    assert not any(boot.heard(HostLost) for boot in observers)


def test_a_host_that_renews_without_its_lock_lives(make_host: MakeHost, queue: Queue) -> None:
    host, observer = make_host("a", **FAST), make_host("b", **FAST)
    alive, watching = booted(host), booted(observer)
    elsewhere(queue, host)
    queue.rows("select pg_terminate_backend(%s)", alive.backend_pid())
    # What its keeper cannot do, somebody else does: the row moves and nobody holds the lock.
    end = time.monotonic() + 2.5

    def moved_long_enough() -> bool:
        queue.conn.execute("update stoker.hosts set renewals = renewals + 1 where id = %s", (host.id,))
        return time.monotonic() > end

    turn_all(watching, until=moved_long_enough)
    assert host.id in hosts(queue)


def test_a_frozen_host_that_keeps_its_lock_is_dead_after_a_lease(make_host: MakeHost, queue: Queue) -> None:
    frozen, observer = make_host("a", **FAST), make_host("b", **FAST)
    asleep, watching = booted(frozen), booted(observer)
    elsewhere(queue, frozen)
    old = frozen.id
    turn_all(watching, until=lambda: old not in hosts(queue))
    turn_all(asleep, watching, until=lambda: asleep.heard(HostLost) and frozen.id not in (0, old))
    assert hosts(queue) == {frozen.id, observer.id}


def test_a_free_file_lock_on_this_machine_is_proof_at_once(make_host: MakeHost, queue: Queue) -> None:
    gone, observer = make_host("gone"), make_host("observer")
    lost, watching = booted(gone), booted(observer)
    (job_id,) = queue.add()
    queue.claim(gone.id, 7)
    lost.close()
    turn_all(watching, until=lambda: len(watching.heard(Ready)) == 1)
    watching.turn_for(0.3)
    assert queue.state(job_id) == "running", "the lock is still held"
    gone.lock.free()
    began = time.monotonic()
    turn_all(watching, until=lambda: queue.state(job_id) == "ready")
    assert time.monotonic() - began < 8, "without the file it takes 10 s"
    assert hosts(queue) == {observer.id} and not gone.lock.path.exists()


def test_a_free_file_lock_of_another_machine_proves_nothing(make_host: MakeHost, queue: Queue) -> None:
    gone, observer = make_host("gone"), make_host("observer")
    lost, watching = booted(gone), booted(observer)
    elsewhere(queue, gone)
    lost.close()
    gone.lock.free()
    watching.turn_for(0.5)
    assert hosts(queue) == {gone.id, observer.id} and gone.lock.path.exists()


def test_a_new_keeper_recovers_at_once_what_a_dead_boot_left(make_host: MakeHost, queue: Queue) -> None:
    gone = make_host("gone")
    lost = booted(gone)
    jobs = queue.add(3)
    queue.claim(gone.id, 7)
    lost.close()
    gone.lock.free()
    boot = make_host("next").boot()
    boot.turn_until(lambda: queue.states() == {"ready": len(jobs)})


def test_a_job_that_lost_too_many_hosts_is_dead(make_host: MakeHost, queue: Queue) -> None:
    host = make_host("a", max_crashes=2)
    booted(host)
    worn, fresh, cancelled = queue.add(3)
    queue.conn.execute("update stoker.jobs set lost = 5 where id = %s", (worn,))
    queue.claim(12345, 7)
    queue.driver.cancel(cancelled, "enough")
    host.fleet[0].turn_until(lambda: "running" not in queue.states())
    assert [queue.state(job_id) for job_id in (worn, fresh, cancelled)] == ["dead", "ready", "cancelled"]
    view = queue.view(worn)
    assert (view.lost, view.error["code"]) == (6, "STOKER_WORKER_CRASHED")
    assert "12345" in view.error["message"]
    assert queue.view(cancelled).error["message"] == "enough"


def test_many_lost_jobs_are_swept_page_by_page(make_host: MakeHost, queue: Queue) -> None:
    boot = booted(make_host("a"))
    queue.fill(1300)
    queue.claim(777, 1, 1300)
    boot.turn_until(lambda: queue.states() == {"ready": 1300})


def test_rows_of_hosts_that_exist_are_not_swept(make_host: MakeHost, queue: Queue) -> None:
    mine, other = make_host("a", **FAST), make_host("b", **FAST)
    boots = booted(mine), booted(other)
    queue.add(2)
    queue.claim(mine.id, 99, 1)
    queue.claim(other.id, 99, 1)
    end = time.monotonic() + 0.5
    turn_all(*boots, until=lambda: time.monotonic() > end)
    assert queue.states() == {"running": 2}
