"""How a keeper ends: after the workers, before the deadline, and without taking the lease from a successor."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.keeper.rig import Boot, Host, Queue, death
from tests.support import fastest
from worker_proc.board import Phase, SlotState, SlotWord, Word
from worker_proc.linux import boottime_ns
from worker_proc.messages import Closed, Lane, Ready, Reaped

S = 1_000_000_000


@pytest.fixture
def boot(host: Host) -> Boot:
    boot = host.boot()
    boot.until_said(Ready)
    return boot


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may be a worker's."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def close(boot: Boot, *, within: float | None = None, phase: Phase = Phase.CLOSING, orphaned: bool = False) -> Closed:
    """What the control thread does on `Close` or at the end of the supervisor, then the drain."""
    boot.host.board[Word.PHASE] = phase
    boot.control.stop_reason = "close"
    boot.control.orphaned = orphaned
    boot.control.close_deadline = 0 if within is None else time.monotonic_ns() + int(within * S)
    boot.control.told_to_close = True
    assert boot.keeper.done
    closed = boot.keeper.drain()
    boot.left_s = boot.control.close_deadline / S - time.monotonic()
    boot.listen()
    boot.close()
    return closed


def hosts(queue: Queue) -> int:
    count: int = queue.one("select count(*) from stoker.hosts")
    return count


def test_a_drain_goes_on_until_it_is_told_to_close(boot: Boot) -> None:
    boot.control.stop_reason = "SIGTERM"
    assert boot.control.stopping and not boot.keeper.done


def test_the_last_keeper_ends_the_lease_at_once(boot: Boot, host: Host, queue: Queue) -> None:
    began = time.monotonic()
    assert close(boot, within=60) == Closed(0, 0, 0)
    assert time.monotonic() - began < 20
    assert hosts(queue) == 0 and host.id == 0
    assert not host.board.lease_trusted(boottime_ns())


def test_deaths_that_are_still_open_are_settled_and_leftovers_handed_back(boot: Boot, queue: Queue) -> None:
    first, second = queue.add(2)
    (run,) = queue.claim(boot.host.id, 7, 1)
    queue.claim(boot.host.id, 8, 1)
    boot.keeper.on_message(death(7, "drain", Lane(run.id, run.run_no, "innocent")))
    assert close(boot, within=60).interrupted == 1
    assert Reaped(7) in boot.said
    assert [queue.state(job_id) for job_id in (first, second)] == ["ready", "ready"]
    assert hosts(queue) == 0


def test_a_keeper_that_is_replaced_leaves_the_lease(boot: Boot, host: Host, queue: Queue) -> None:
    (job_id,) = queue.add()
    queue.claim(host.id, host.worker_ready(0))
    close(boot, phase=Phase.RUNNING)
    assert hosts(queue) == 1 and host.id != 0 and queue.state(job_id) == "running"
    assert host.board[Word.TRUSTED_UNTIL] <= boottime_ns() + 5 * S, "nobody holds the lock now"


def test_a_replaced_keeper_leaves_the_lease_even_while_no_worker_lives(boot: Boot, host: Host, queue: Queue) -> None:
    close(boot, phase=Phase.RUNNING)
    assert hosts(queue) == 1 and host.id != 0


def test_a_lease_is_not_ended_under_a_living_worker(boot: Boot, host: Host, queue: Queue) -> None:
    host.worker_ready(0)
    close(boot, within=2)
    assert hosts(queue) == 1


def test_an_orphan_waits_for_the_workers_and_then_hands_everything_back(
    boot: Boot, host: Host, queue: Queue, worker: subprocess.Popen[bytes]
) -> None:
    claim_no = host.worker_ready(0)
    host.slots[0][SlotWord.PID] = worker.pid
    (job_id,) = queue.add()
    queue.claim(host.id, claim_no)
    began = time.monotonic()
    threading.Timer(0.5, worker.kill).start()
    assert close(boot, within=60, phase=Phase.RUNNING, orphaned=True).interrupted == 1
    assert 0.5 <= time.monotonic() - began < 20
    assert queue.state(job_id) == "ready" and hosts(queue) == 0


def test_an_orphan_whose_workers_do_not_end_leaves_the_row_to_others(
    make_host: Callable[..., Host], queue: Queue
) -> None:
    names = iter("abcde")

    def seconds_taken() -> float:
        queue.conn.execute("truncate stoker.jobs, stoker.hosts")
        host = make_host(next(names), queues=("default",))
        boot = host.boot()
        boot.until_said(Ready)
        claim_no = host.worker_ready(0)
        (job_id,) = queue.add()
        queue.claim(host.id, claim_no)
        renewals = queue.one("select renewals from stoker.hosts")
        close(boot, within=2.5, phase=Phase.RUNNING, orphaned=True)
        assert hosts(queue) == 1 and queue.state(job_id) == "running"
        assert queue.one("select renewals from stoker.hosts") > renewals, "renewed to the end"
        return 2.5 - boot.left_s

    fastest(seconds_taken, below=2.5)


def test_a_worker_that_has_no_pid_yet_may_be_alive(boot: Boot, host: Host, queue: Queue) -> None:
    host.slots[0].reset(generation=1, claim_no=5)
    close(boot, within=1)
    assert host.slots[0][SlotWord.STATE] == SlotState.STARTING and hosts(queue) == 1


def test_without_a_database_an_idle_keeper_does_not_wait_for_its_deadline(boot: Boot, queue: Queue) -> None:
    boot.keeper.session._url = "postgresql://127.0.0.1:1/queue"
    queue.kill_backend(boot.backend_pid())
    began = time.monotonic()
    assert close(boot, within=60) == Closed(0, 0, 0)
    assert time.monotonic() - began < 20


def test_without_a_database_open_deaths_are_tried_until_the_deadline_and_then_abandoned(
    make_host: Callable[..., Host], queue: Queue
) -> None:
    names = iter("abcde")

    def seconds_taken() -> float:
        boot = make_host(next(names)).boot()
        boot.until_said(Ready)
        boot.keeper.session._url = "postgresql://127.0.0.1:1/queue"
        queue.kill_backend(boot.backend_pid())
        boot.keeper.on_message(death(7, "drain"))
        assert close(boot, within=1.5) == Closed(0, 0, 1)
        assert boot.left_s < 0.5
        return 1.5 - boot.left_s

    fastest(seconds_taken, below=1.5)


def test_nothing_stays_open(host: Host) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    threads = threading.active_count()
    boot = host.boot()
    boot.until_said(Ready)
    boot.turn_for(0.3)
    close(boot, within=60)
    # What other tests left may end meanwhile.
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    assert threading.active_count() <= threads
