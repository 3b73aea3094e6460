"""stoker.enqueue and its kin when several connections, or other languages, use them."""

import random
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest

from stoker.database import connect
from stoker.drivers.base import Enqueued, Holder, NewJob, OnConflict
from stoker.drivers.postgres import PostgresDriver
from stoker.errors import JobDuplicate
from stoker.sql import statement
from tests.side_table import Database


@pytest.fixture
def other(db: Database) -> Iterator[PostgresDriver]:
    """A second connection."""
    conn = connect(db.url, name="other")
    yield PostgresDriver(conn)
    conn.rollback()
    conn.close()


def keyed(version: int, key: str = "k", **options: Any) -> NewJob:
    return NewJob(name="n", queue="q", payload=f'{{"v":{version}}}', idempotency_key=key, **options)


@pytest.fixture(params=["held for a run", "being deleted", "being updated"])
def locked(request: pytest.FixtureRequest, db: Database, other: PostgresDriver) -> int:
    """A job whose row another transaction has locked; whoever waits for it on the first connection gets an error."""
    (first,) = db.driver.enqueue([keyed(0)])
    other.conn.execute("begin")
    if request.param == "held for a run":
        other.conn.execute("select from stoker.jobs where id = %s for no key update", (first.id,))
    elif request.param == "being deleted":
        other.conn.execute("delete from stoker.jobs where id = %s", (first.id,))
    else:
        other.conn.execute("update stoker.jobs set attempt = 1 where id = %s", (first.id,))
    db.conn.execute("set lock_timeout = '2s'")
    return first.id


def enqueue_keyed(db: Database, rule: OnConflict, *, many: bool, in_transaction: bool) -> list[Enqueued]:
    jobs = [keyed(1, on_conflict=rule), *[keyed(1, f"other {n}", on_conflict=rule) for n in range(many)]]
    with db.conn.transaction() if in_transaction else nullcontext():
        return db.driver.enqueue(jobs)


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("rule", ["dedupe", "replace"])
def test_a_job_whose_row_is_locked_counts_as_running(
    db: Database, locked: int, rule: OnConflict, many: bool, in_transaction: bool
) -> None:
    stored = enqueue_keyed(db, rule, many=many, in_transaction=in_transaction)
    assert stored[0] == Enqueued(locked, False)
    assert all(one.created for one in stored[1:])
    assert db.job(locked).payload == {"v": 0}


@pytest.mark.parametrize("many", [False, True])
def test_error_does_not_wait_for_a_locked_row(db: Database, locked: int, many: bool) -> None:
    with pytest.raises(JobDuplicate) as caught:
        enqueue_keyed(db, "error", many=many, in_transaction=False)
    assert caught.value.job_id == locked


def test_a_locked_row_is_seen_and_asked_to_end_without_waiting(db: Database, locked: int) -> None:
    assert db.driver.cancel(locked, "enough") == "requested"
    assert db.driver.cancel_requests([locked]) == {locked: "enough"}
    assert db.job(locked).state == "ready"
    assert [view.id for view in db.driver.jobs(queue="q", name=None, state=[], limit=9, before=None)] == [locked]
    assert db.driver.claim("q", 10, Holder(1, 1)) == []


def test_a_locked_twin_is_no_reason_to_wait_with_a_retry(db: Database, other: PostgresDriver) -> None:
    (ended,) = db.driver.enqueue([keyed(0)])
    db.driver.cancel(ended.id, "")
    (twin,) = db.driver.enqueue([keyed(1)])
    other.conn.execute("begin")
    other.conn.execute("select from stoker.jobs where id = %s for no key update", (twin.id,))
    db.conn.execute("set lock_timeout = '2s'")
    assert db.driver.retry(ended.id) == twin.id


@pytest.mark.parametrize("many", [False, True])
def test_a_replacement_of_a_job_that_has_ended_is_a_new_job(db: Database, many: bool) -> None:
    (first,) = db.driver.enqueue([keyed(0)])
    db.driver.cancel(first.id, "")
    stored = enqueue_keyed(db, "replace", many=many, in_transaction=False)
    assert stored[0].created
    assert db.job(stored[0].id).payload == {"v": 1}


@pytest.mark.parametrize("rule", ["dedupe", "replace"])
def test_writers_with_the_same_keys_in_other_orders_do_not_deadlock(db: Database, rule: OnConflict) -> None:
    keys = [f"k{n}" for n in range(100)]
    stored: list[list[int]] = []

    def enqueue(seed: int) -> None:
        order = random.Random(seed).sample(keys, len(keys))
        conn = connect(db.url, name="writer")
        by_key = dict(
            zip(order, PostgresDriver(conn).enqueue([keyed(0, key, on_conflict=rule) for key in order]), strict=True)
        )
        conn.close()
        stored.append([by_key[key].id for key in keys])

    threads = [threading.Thread(target=enqueue, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored) == 8
    assert all(ids == stored[0] for ids in stored)


def test_a_batch_keeps_its_order_whatever_its_keys_are(db: Database) -> None:
    stored = db.driver.enqueue([keyed(n, key) for n, key in enumerate(("z", "a", "m", "a"))])
    assert [one.created for one in stored] == [True, True, True, False]
    assert stored[3].id == stored[1].id
    claimed = db.driver.claim("q", 10, Holder(1, 1))
    assert [one.id for one in claimed] == [one.id for one in stored[:3]]


@pytest.mark.parametrize(
    "arguments",
    [
        "'n', p_queue => 'nobody serves this'",
        "'n', p_queue => ''",
        "''",
        "repeat('n', 201)",
        "'n', p_run_at => 'infinity'",
        "'n', p_delay => 1e12",
        "'n', '[]'",
        "'n', p_idempotency_key => 'k', p_on_conflict => null",
    ],
)
def test_what_the_library_refuses_is_refused_to_all(db: Database, arguments: str) -> None:
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.InvalidParameterValue)):
        db.conn.execute(f"select stoker.enqueue({arguments})")  # type: ignore[call-overload]


@pytest.mark.parametrize("payload", ['{"a":' * 2000 + "1" + "}" * 2000, '{"n":1' + "0" * 5000 + "}"])
def test_a_payload_that_python_cannot_read_hides_no_other_job(db: Database, payload: str) -> None:
    db.conn.execute("select stoker.enqueue('odd', %s)", (payload,))
    db.enqueue("even")
    even, odd = db.driver.jobs(queue=None, name=None, state=[], limit=9, before=None)
    assert even.payload == {}
    assert isinstance(odd.payload, str)


def test_a_cancel_that_came_too_late_does_not_end_the_next_run(db: Database, other: PostgresDriver) -> None:
    (job_id,) = db.enqueue("n")
    other.conn.execute("begin")
    assert other.cancel(job_id, "") == "cancelled"
    assert db.driver.cancel(job_id, "") == "requested"
    other.conn.execute("commit")
    db.driver.retry(job_id)
    assert db.driver.cancel_requests([job_id]) == {}


def test_a_job_put_back_in_line_waits_from_now_on(db: Database) -> None:
    (job_id,) = db.enqueue("n")
    db.driver.cancel(job_id, "")
    db.conn.execute("update stoker.finished set created_at = now() - interval '9 days'")
    db.driver.retry(job_id)
    row = db.conn.execute(statement("count_queues")).fetchone()
    assert row is not None
    assert row[-1] < 60
