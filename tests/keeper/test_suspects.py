"""Deaths on locked jobs: noted at once, written when the row is free, held against nobody who was not running."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import json

from tests.keeper.rig import Boot, Host, Queue, death
from worker_proc.messages import ChildDied, Lane, Ready, Reaped


def reap(boot: Boot, message: ChildDied) -> None:
    """Report a death and turn until it is settled."""
    before = len(boot.heard(Reaped))
    boot.keeper.on_message(message)
    boot.turn_until(lambda: len(boot.heard(Reaped)) > before)


def blamed(job_id: int, run_no: int = 1, *, ended: bool = False) -> Lane:
    return Lane(job_id, run_no, "blamed", ended)


def noted(queue: Queue) -> list[int]:
    return [row[0] for row in queue.rows("select job_id from stoker.suspects order by job_id, claim_no")]


def account(queue: Queue, job_id: int) -> tuple[Any, ...]:
    view = queue.view(job_id)
    return view.state, view.attempt, view.crashes, [one["outcome"] for one in view.attempts]


@pytest.fixture
def boot(make_host: Callable[..., Host]) -> Boot:
    boot = make_host(queues=("default", "default"), renew_every=0.05).boot()
    boot.until_said(Ready)
    return boot


def test_a_death_is_written_at_once_when_the_row_is_free(boot: Boot, queue: Queue) -> None:
    job, neighbour = queue.add(2)
    reap(boot, death(7, "crash", blamed(job)))
    boot.turn_until(lambda: not noted(queue))
    view = queue.view(job)
    assert account(queue, job) == ("ready", 1, 1, ["retried"])
    assert (view.error["code"], view.error["signal"], view.error["pid"]) == ("STOKER_WORKER_CRASHED", 9, 4711)
    assert view.run_no == 1
    assert account(queue, neighbour) == ("ready", 0, 0, [])


def test_three_such_deaths_are_the_end(boot: Boot, queue: Queue) -> None:
    (job,) = queue.add()
    for claim_no in (7, 8, 9):
        reap(boot, death(claim_no, "crash", blamed(job, run_no=claim_no - 6)))
        boot.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("dead", 3, 3, ["retried", "retried", "dead_lettered"])


def test_several_deaths_of_one_moment_are_written_one_after_the_other(boot: Boot, queue: Queue, rival: Queue) -> None:
    """Each of the workers ran it before the first death was noted: all have the same number."""
    job, other = queue.add(2)
    with rival.conn.transaction():
        rival.rows("select from stoker.jobs for no key update")
        for claim_no in (7, 8):
            reap(boot, death(claim_no, "crash", blamed(job)))
        reap(boot, death(9, "crash", blamed(other)))
        assert noted(queue) == [job, job, other]
        boot.turn_for(0.1)
        assert noted(queue) == [job, job, other]
    boot.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("delayed", 2, 2, ["retried", "retried"])
    assert account(queue, other) == ("ready", 1, 1, ["retried"])


def test_more_deaths_than_a_job_has_lives(boot: Boot, queue: Queue, rival: Queue) -> None:
    (job,) = queue.add(max_attempts=2)
    with rival.conn.transaction():
        rival.rows("select from stoker.jobs for no key update")
        for claim_no in range(7, 12):
            reap(boot, death(claim_no, "crash", blamed(job)))
    boot.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("dead", 2, 2, ["retried", "dead_lettered"])


def test_nobody_claims_it_before_its_death_is_written(boot: Boot, queue: Queue, rival: Queue) -> None:
    job, other = queue.add(2)
    with rival.conn.transaction():
        rival.rows("select from stoker.jobs where id = %s for no key update", job)
        reap(boot, death(7, "crash", blamed(job)))
    assert [run.id for run in queue.claim(boot.host.id, 8)] == [other]
    boot.turn_until(lambda: not noted(queue))
    assert [run.attempt for run in queue.claim(boot.host.id, 8)] == [2]


def test_it_is_written_when_the_one_who_runs_the_job_meanwhile_has_ended(boot: Boot, queue: Queue) -> None:
    claim_no = boot.host.worker_ready(0)
    (job,) = queue.add()
    (run,) = queue.claim(boot.host.id, claim_no)
    reap(boot, death(99, "crash", blamed(job)))
    boot.turn_for(0.1)
    assert (noted(queue), queue.state(job)) == ([job], "running")
    queue.settle(run, "retried", error={"message": "m"})
    boot.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("ready", 2, 1, ["retried", "retried"])


def test_a_job_that_has_ended_meanwhile_has_no_suspect(boot: Boot, queue: Queue) -> None:
    claim_no = boot.host.worker_ready(0)
    (job,) = queue.add()
    (run,) = queue.claim(boot.host.id, claim_no)
    reap(boot, death(99, "crash", blamed(job)))
    queue.settle(run, "completed")
    boot.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("done", 1, 0, [])


def test_a_later_death_of_who_leased_it_is_not_counted_twice(boot: Boot, queue: Queue) -> None:
    """The first worker died on a lock, the second on the lease it took before that was noted."""
    (job,) = queue.add()
    (run,) = queue.claim(boot.host.id, 98)
    reap(boot, death(97, "crash", blamed(job)))
    reap(boot, death(98, "crash", blamed(job, run.run_no)))
    boot.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("delayed", 2, 2, ["retried", "retried"])


def test_a_leased_run_is_not_noted_as_well(boot: Boot, queue: Queue) -> None:
    (job,) = queue.add()
    (run,) = queue.claim(boot.host.id, 7)
    reap(boot, death(7, "crash", blamed(job, run.run_no)))
    assert noted(queue) == []
    assert account(queue, job) == ("ready", 1, 1, ["retried"])


def test_the_same_death_again_changes_nothing(boot: Boot, queue: Queue, rival: Queue) -> None:
    (job,) = queue.add()
    message = death(7, "crash", blamed(job))
    with rival.conn.transaction():
        rival.rows("select from stoker.jobs for no key update")
        reap(boot, message)
        reap(boot, message)
        assert noted(queue) == [job]
    boot.turn_until(lambda: not noted(queue))
    reap(boot, message)
    boot.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("ready", 1, 1, ["retried"])


@pytest.mark.parametrize("run_no", [1, 2])
def test_a_body_that_had_ended_is_blamed_only_if_its_ending_was_not_written(
    boot: Boot, queue: Queue, run_no: int
) -> None:
    """What it left behind killed the process, in the same batch or in a later one."""
    (job,) = queue.add()
    if run_no == 1:
        (run,) = queue.claim(boot.host.id, 7)
        queue.settle(run, "retried", error={"message": "m"})
    else:
        queue.conn.execute("update stoker.jobs set run_no = 1")
    reap(boot, death(7, "crash", blamed(job, run_no, ended=True)))
    boot.turn_until(lambda: not noted(queue))
    assert queue.view(job).crashes == run_no - 1


def test_innocent_runs_of_a_drain_are_free_and_nothing_more(boot: Boot, queue: Queue) -> None:
    (job,) = queue.add()
    reap(boot, death(7, "drain", Lane(job, 1, "innocent")))
    assert noted(queue) == []
    assert account(queue, job) == ("ready", 0, 0, [])


def test_timeouts_and_cancels_are_what_they_were(boot: Boot, queue: Queue) -> None:
    late, unwanted = queue.add(2, max_attempts=1)
    reap(boot, death(7, "timeout", blamed(late)))
    reap(boot, death(8, "cancel", blamed(unwanted)))
    boot.turn_until(lambda: not noted(queue))
    assert account(queue, late) == ("dead", 1, 0, ["dead_lettered"])
    assert queue.view(late).error["code"] == "STOKER_JOB_TIMEOUT"
    assert queue.state(unwanted) == "cancelled"


def test_a_suspect_can_be_cancelled(boot: Boot, queue: Queue, rival: Queue) -> None:
    (job,) = queue.add()
    with rival.conn.transaction():
        rival.rows("select from stoker.jobs for no key update")
        reap(boot, death(7, "crash", blamed(job)))
        assert queue.driver.cancel(job, "no longer wanted") == "requested"
    boot.turn_until(lambda: not noted(queue))
    boot.turn_until(lambda: queue.state(job) == "cancelled")
    assert queue.one("select count(*) from stoker.cancels") == 0


def test_what_a_keeper_noted_before_it_died_another_one_writes(make_host: Callable[..., Host], queue: Queue) -> None:
    (job,) = queue.add()
    queue.conn.execute("update stoker.jobs set state = 'delayed', run_at = now() + interval '1 h'")
    first = make_host("a", queues=("default",)).boot()
    first.until_said(Ready)
    queue.conn.execute("update stoker.jobs set host = 5, claim_no = 5, state = 'running', run_at = null")
    reap(first, death(7, "crash", blamed(job)))
    first.close()
    queue.conn.execute("update stoker.jobs set host = null, claim_no = null, state = 'ready'")
    other = make_host("b", queues=("default",)).boot()
    other.turn_until(lambda: not noted(queue))
    assert account(queue, job) == ("ready", 1, 1, ["retried"])


def test_two_keepers_write_each_death_once(make_host: Callable[..., Host], queue: Queue) -> None:
    boots = [make_host(name, queues=("default",)).boot() for name in "ab"]
    for boot in boots:
        boot.until_said(Ready)
    jobs = queue.add(20)
    for claim_no, job in enumerate(jobs, start=100):
        boots[claim_no % 2].keeper.on_message(death(claim_no, "crash", blamed(job)))
    turns = itertools.cycle(boots)
    boots[0].turn_until(lambda: next(turns).keeper.turn() is not None and not noted(queue) and _all_crashed(queue))
    assert {account(queue, job)[:3] for job in jobs} == {("ready", 1, 1)}


def _all_crashed(queue: Queue) -> bool:
    return bool(queue.one("select min(crashes) = 1 from stoker.jobs"))


def test_hundreds_of_suspects_are_written_page_by_page(boot: Boot, queue: Queue) -> None:
    queue.fill(250)
    ids = [row[0] for row in queue.rows("select id from stoker.jobs")]
    reap(boot, death(1, "crash", blamed(ids[0])))
    queue.conn.cursor().executemany(
        "insert into stoker.suspects (job_id, host, claim_no, run_no, death) values (%s, 1, 1, 1, %s)",
        [(job, json.encode(death(1, "crash")).decode()) for job in ids[1:]],
    )
    boot.turn_until(lambda: not noted(queue))
    assert queue.rows("select distinct crashes, attempt from stoker.jobs") == [(1, 1)]
