"""The roles of the schema: who may enqueue, work, read, and no more."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.side_table import Database


@pytest.fixture
def as_role(db: Database) -> Iterator[psycopg.Connection]:
    yield db.conn
    db.conn.execute("reset role")


def test_an_enqueuer_enqueues_and_nothing_else(db: Database, as_role: psycopg.Connection) -> None:
    as_role.execute("set role stoker_enqueue")
    row = as_role.execute("select id, created from stoker.enqueue('hello', '{\"a\": 1}')").fetchone()
    assert row is not None
    assert as_role.execute("select result from stoker.cancel(%s)", (row[0],)).fetchone() == ("cancelled",)
    for forbidden in (
        "select * from stoker.jobs",
        "delete from stoker.jobs",
        "select stoker.attach_day('done', now()::date)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_role.execute(forbidden)


def test_a_reader_reads(as_role: psycopg.Connection) -> None:
    as_role.execute("set role stoker_read")
    as_role.execute("select * from stoker.jobs")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role.execute("update stoker.jobs set priority = 1")


def test_a_worker_claims_and_settles(db: Database, as_role: psycopg.Connection) -> None:
    from stoker.drivers.base import Holder, Settlement

    db.enqueue("hello")
    as_role.execute("set role stoker_worker")
    (claimed,) = db.driver.claim("default", 10, Holder(1, 1))
    settled = db.driver.settle([Settlement(job_id=claimed.id, run_no=claimed.run_no, outcome="completed")])
    assert [one.state for one in settled] == ["done"]


def test_everybody_else_may_not_even_look(db: Database, as_role: psycopg.Connection) -> None:
    as_role.execute("set role pg_monitor")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role.execute("select stoker.enqueue('hello')")


def test_an_enqueuer_enqueues_through_the_library(db: Database, as_role: psycopg.Connection) -> None:
    as_role.execute("set role stoker_enqueue")
    for options in ({}, {"delay": 5.0}, {"idempotency_key": "k"}, {"idempotency_key": "k", "on_conflict": "replace"}):
        assert db.enqueue("hello", tenant="t", priority=1, max_attempts=2, **options)
    assert len(db.enqueue("hello", times=100, tenant="t")) == 100
    assert len(db.enqueue("hello", times=100, delay=5.0)) == 100
    assert len(db.enqueue("hello", times=3)) == 3
    assert len(db.enqueue("hello", times=3, delay=5.0)) == 3


def test_a_worker_makes_and_removes_days(as_role: psycopg.Connection) -> None:
    as_role.execute("set role stoker_worker")
    assert as_role.execute("select stoker.attach_day('done', '2001-01-01')").fetchone() == (True,)
    assert as_role.execute("select stoker.detach_day('done', '2001-01-01')").fetchone() == (True,)
