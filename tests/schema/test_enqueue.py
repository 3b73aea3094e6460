"""stoker.enqueue and its kin when several connections, or other languages, use them."""

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from stoker.database import connect
from stoker.drivers.base import Holder, NewJob
from stoker.drivers.postgres import PostgresDriver
from stoker.sql import statement
from tests.side_table import Database
from tests.support import until


@pytest.fixture
def other(db: Database) -> Iterator[PostgresDriver]:
    """A second connection."""
    conn = connect(db.url, name="other")
    yield PostgresDriver(conn)
    conn.close()


def keyed(version: int, key: str = "k", **options: Any) -> NewJob:
    return NewJob(name="n", queue="q", payload=f'{{"v":{version}}}', idempotency_key=key, **options)


def until_it_waits(waiting: Database, other: PostgresDriver) -> None:
    query = "select pid from pg_locks where not granted and pid = %s"
    until(lambda: other.conn.execute(query, (waiting.conn.info.backend_pid,)).fetchone())


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_of_two_replacements_the_later_one_stays(db: Database, other: PostgresDriver, end: str) -> None:
    (first,) = db.driver.enqueue([keyed(0)])
    other.conn.execute("begin")
    other.enqueue([keyed(1, on_conflict="replace")])
    later = threading.Thread(target=db.driver.enqueue, args=([keyed(2, on_conflict="replace")],))
    later.start()
    until_it_waits(db, other)
    other.conn.execute(end)  # type: ignore[call-overload]
    later.join()
    assert db.job(first.id).payload == {"v": 2}


def test_a_replacement_of_a_job_that_ends_meanwhile_is_a_new_job(db: Database, other: PostgresDriver) -> None:
    (first,) = db.driver.enqueue([keyed(0)])
    other.conn.execute("begin")
    other.cancel(first.id, "")
    stored = []
    later = threading.Thread(target=lambda: stored.extend(db.driver.enqueue([keyed(1, on_conflict="replace")])))
    later.start()
    until_it_waits(db, other)
    other.conn.execute("commit")
    later.join()
    assert stored[0].created
    assert db.job(stored[0].id).payload == {"v": 1}


def test_batches_with_the_same_keys_in_another_order_do_not_deadlock(db: Database, other: PostgresDriver) -> None:
    keys = [f"k{n}" for n in range(300)]
    stored: dict[str, list[int]] = {}

    def enqueue(driver: PostgresDriver, name: str, order: list[str]) -> None:
        by_key = dict(zip(order, driver.enqueue([keyed(0, key) for key in order]), strict=True))
        stored[name] = [by_key[key].id for key in keys]

    threads = [
        threading.Thread(target=enqueue, args=(db.driver, "forth", keys)),
        threading.Thread(target=enqueue, args=(other, "back", keys[::-1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored["forth"] == stored["back"]


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
