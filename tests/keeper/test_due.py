"""Delayed jobs become ready when they are due, and somebody is woken."""

import time
from collections.abc import Callable

import psycopg
import pytest

from tests.keeper.rig import Boot, Host, Queue
from tests.support import HANGS_S, fastest
from worker_proc import due
from worker_proc.messages import Ready

LATENESS = """
    select extract(epoch from clock_timestamp() - %s::timestamptz)::float8
"""


def lateness(boot: Boot, queue: Queue, *, delay: float = 0.15) -> float:
    """Enqueue a job and turn until it is ready: how many seconds after its time the turn began that made it so."""
    (job_id,) = queue.add(delay=delay)
    planned = queue.view(job_id).run_at
    assert planned
    while True:
        late = time.time() - planned.timestamp()
        pause = boot.keeper.turn()
        if late > -0.1 and queue.state(job_id) == "ready":
            assert queue.one(LATENESS, planned) >= 0
            return late
        assert late < HANGS_S
        boot.keeper.wait(min(0.05, pause))


def test_a_due_job_is_ready_within_milliseconds_and_a_worker_is_woken(host: Host, queue: Queue) -> None:
    boot = host.boot()
    host.worker_ready(0)
    boot.until_said(Ready)

    def late() -> float:
        host.woken(0)
        took = lateness(boot, queue)
        assert host.woken(0)
        return took

    fastest(late, below=0.05)


def test_a_job_that_is_due_earlier_moves_the_alarm(host: Host, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    # Who is not told would find it after a minute.
    monkeypatch.setattr(due, "LONGEST_SLEEP_S", 60.0)
    boot = host.boot()
    boot.until_said(Ready)
    queue.add(delay=3600)
    boot.turn_for(0.1)
    (soon,) = queue.add(delay=0.2)
    boot.turn_until(lambda: queue.state(soon) == "ready", within=30)
    assert queue.states() == {"delayed": 1, "ready": 1}


def test_jobs_from_clients_that_do_not_notify_are_found_within_a_second(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    boot.turn_for(0.1)
    queue.fill(1, state="delayed", due_in="50 ms")
    boot.turn_until(lambda: queue.states() == {"ready": 1})


def test_more_than_a_page_is_promoted_and_other_hosts_hear_of_it(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    queue.conn.execute("listen stoker_ready")
    queue.fill(2500, state="delayed", due_in="-1 s")
    boot.turn_until(lambda: queue.states() == {"ready": 2500})
    assert {note.payload for note in queue.conn.notifies(timeout=HANGS_S, stop_after=1)} == {"default"}


def test_a_due_row_that_somebody_holds_hides_no_other(host: Host, queue: Queue, database_url: str) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    (stuck,) = queue.add(delay=0.05)
    with psycopg.connect(database_url) as holder:
        holder.execute("select from stoker.jobs where id = %s for update", (stuck,))
        boot.turn_for(0.5)
        fastest(lambda: lateness(boot, queue), below=0.1)
        assert queue.state(stuck) == "delayed"
    boot.turn_until(lambda: queue.state(stuck) == "ready")


def test_a_job_that_is_due_in_ages_is_no_trouble(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    queue.fill(1, state="delayed", due_in="1000 years")
    (soon,) = queue.add(delay=0.1)
    boot.turn_until(lambda: queue.state(soon) == "ready")


def test_a_host_that_knows_the_name_unparks_at_boot(make_host: Callable[..., Host], queue: Queue) -> None:
    ids = queue.add(2, name="known") + queue.add(1, name="unknown")
    for run in queue.claim(1, 1):
        queue.settle(run, "postponed", delay=50.0)
    assert queue.states() == {"delayed": 3}
    boot = make_host("b").boot(names=("known", "render"))
    boot.turn_until(lambda: queue.states() == {"ready": 2, "delayed": 1})
    assert queue.state(ids[2]) == "delayed"


def test_two_keepers_promote_each_job_once(make_host: Callable[..., Host], queue: Queue) -> None:
    boots = [make_host(name).boot() for name in ("a", "b")]
    for boot in boots:
        boot.until_said(Ready)
    queue.fill(200, state="delayed", due_in="100 ms")
    deadline = time.monotonic() + HANGS_S
    while queue.states() != {"ready": 200}:
        assert time.monotonic() < deadline
        for boot in boots:
            boot.keeper.wait(min(0.005, boot.keeper.turn()))
    assert queue.one("select count(distinct pos) from stoker.jobs") == 200
