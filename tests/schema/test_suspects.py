"""Suspects in the database: how a job becomes one, who claims it, and what makes it an ordinary job again."""

from typing import Any

import pytest

from stoker.drivers import holding
from stoker.drivers.base import Claimed, Holder, JobView, Outcome, Settlement
from tests.side_table import Database

ME = Holder(host=7, claim_no=3)


def suspect(db: Database, **job: Any) -> int:
    """A job that was executing in a process that died."""
    (job_id,) = db.enqueue("n", **job)
    (run,) = db.driver.claim("default", 1, ME)
    assert run.id == job_id
    settle(db, run, "suspected")
    return job_id


def settle(db: Database, run: Claimed, outcome: Outcome, *, crashed: bool = False, delay: float = 0.0) -> JobView:
    error = {"type": "Boom", "message": "no"}
    settlement = Settlement(
        job_id=run.id, run_no=run.run_no, outcome=outcome, error=error, crashed=crashed, delay=delay
    )
    (settled,) = db.driver.settle([settlement])
    assert settled.job_id == run.id
    return db.job(run.id)


def claim(db: Database, queue: str = "default") -> list[Claimed]:
    return db.driver.run(holding.claim_suspect(queue, ME))


def test_it_is_claimed_alone_in_order_and_by_nobody_else(db: Database) -> None:
    first, urgent = suspect(db), suspect(db, priority=-1)
    assert db.driver.claim("default", 10, ME) == []
    assert db.driver.run(holding.lock("default", 10, after=holding.BEGINNING)) == []
    assert claim(db, "other") == []
    assert [[run.id for run in claim(db)] for _ in range(3)] == [[urgent], [first], []]


def test_its_runs_are_numbered_on_and_the_first_is_not_counted(db: Database) -> None:
    suspect(db)
    (run,) = claim(db)
    assert (run.attempt, run.run_no, run.crashes) == (1, 2, 0)


@pytest.mark.parametrize("outcome", ["completed", "dead_lettered", "cancelled"])
def test_an_end_is_the_end_of_suspicion(db: Database, outcome: Outcome) -> None:
    suspect(db)
    (run,) = claim(db)
    assert not settle(db, run, outcome).suspect
    assert db.one("select count(*) from stoker.jobs") == 0


def test_one_that_is_retried_by_itself_is_an_ordinary_job_again(db: Database) -> None:
    job_id = suspect(db)
    assert not settle(db, claim(db)[0], "retried").suspect
    assert claim(db) == []
    assert [run.id for run in db.driver.claim("default", 10, ME)] == [job_id]


@pytest.mark.parametrize("outcome", ["interrupted", "handed_back", "postponed", "suspected"])
def test_a_run_that_proved_nothing_leaves_it_a_suspect(db: Database, outcome: Outcome) -> None:
    job_id = suspect(db)
    view = settle(db, claim(db)[0], outcome)
    assert (view.suspect, view.state, view.attempt) == (True, "ready", 0)
    assert [run.id for run in claim(db)] == [job_id]


def test_one_that_died_alone_stays_among_suspects_through_its_delay(db: Database) -> None:
    job_id = suspect(db)
    view = settle(db, claim(db)[0], "retried", crashed=True, delay=0.01)
    assert (view.suspect, view.state, view.attempt, view.crashes) == (True, "delayed", 1, 1)
    db.conn.execute("update stoker.jobs set run_at = run_at - interval '1 h'")
    assert db.driver.promote_due(10) == 1
    assert db.driver.claim("default", 10, ME) == []
    assert [run.id for run in claim(db)] == [job_id]


def test_a_crash_makes_nobody_a_suspect(db: Database) -> None:
    """Who was alone in its process is blamed at once."""
    db.enqueue("n")
    (run,) = db.driver.claim("default", 1, ME)
    assert not settle(db, run, "retried", crashed=True).suspect


def test_a_stored_cancel_request_ends_it(db: Database) -> None:
    (job_id,) = db.enqueue("n")
    (run,) = db.driver.claim("default", 1, ME)
    assert db.driver.cancel(job_id, "enough") == "requested"
    assert settle(db, run, "suspected").state == "cancelled"
