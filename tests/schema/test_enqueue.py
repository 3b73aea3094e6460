"""stoker.enqueue and its kin when several connections, or other languages, use them."""

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from msgspec.structs import replace

from stoker.database import connect, connect_async
from stoker.drivers.base import Enqueued, Holder, NewJob, OnConflict
from stoker.drivers.calls import Keeping
from stoker.drivers.postgres import AsyncPostgresDriver, PostgresDriver
from stoker.errors import JobDuplicate
from stoker.sql import statement
from tests.side_table import Database
from tests.support import HANGS_S, until


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


@pytest.mark.parametrize(
    "doing", ["select from stoker.jobs where id = %s for update", "delete from stoker.jobs where id = %s"]
)
def test_a_locked_twin_is_no_reason_to_wait_with_a_retry(
    db: Database, other: PostgresDriver, doing: LiteralString
) -> None:
    (ended,) = db.driver.enqueue([keyed(0)])
    db.driver.cancel(ended.id, "")
    (twin,) = db.driver.enqueue([keyed(1)])
    other.conn.execute("begin")
    other.conn.execute(doing, (twin.id,))
    db.conn.execute("set lock_timeout = '2s'")
    assert db.driver.retry(ended.id) == twin.id


@pytest.mark.parametrize("many", [False, True])
def test_a_replacement_of_a_job_that_has_ended_is_a_new_job(db: Database, many: bool) -> None:
    (first,) = db.driver.enqueue([keyed(0)])
    db.driver.cancel(first.id, "")
    stored = enqueue_keyed(db, "replace", many=many, in_transaction=False)
    assert stored[0].created
    assert db.job(stored[0].id).payload == {"v": 1}


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("rule", ["dedupe", "replace", "error"])
def test_a_key_that_is_being_stored_is_waited_for(
    db: Database, other: PostgresDriver, rule: OnConflict, many: bool, end: LiteralString
) -> None:
    other.conn.execute("begin")
    (first,) = other.enqueue([keyed(0)])
    answers: list[list[Enqueued] | JobDuplicate] = []

    def enqueue() -> None:
        try:
            answers.append(enqueue_keyed(db, rule, many=many, in_transaction=False))
        except JobDuplicate as error:
            answers.append(error)

    later = threading.Thread(target=enqueue)
    later.start()
    waits = "select pid from pg_locks where not granted and pid = %s"
    until(lambda: other.conn.execute(waits, (db.conn.info.backend_pid,)).fetchone())
    other.conn.execute(end)
    later.join()
    live = other.jobs(queue="q", name=None, state=[], limit=9, before=None)
    if isinstance(answer := answers[0], JobDuplicate):
        assert (rule, end, answer.job_id) == ("error", "commit", first.id)
        assert [view.id for view in live] == [first.id]
    else:
        assert [one.created for one in answer] == [end == "rollback", *[True] * many]
        assert sorted(view.id for view in live) == sorted(one.id for one in answer)
        assert live[-1].payload == {"v": 0 if (rule, end) == ("dedupe", "commit") else 1}


@pytest.mark.parametrize("others", [0, 1, 100])
def test_a_duplicate_leaves_the_transaction_usable(db: Database, others: int) -> None:
    (first,) = db.driver.enqueue([keyed(0)])
    with db.conn.transaction():
        jobs = [keyed(n, f"o{n}", on_conflict="error") for n in range(others)]
        with pytest.raises(JobDuplicate) as caught:
            db.driver.enqueue([*jobs, keyed(1, on_conflict="error")])
        assert caught.value.job_id == first.id
        (second,) = db.driver.enqueue([keyed(2, "other")])
    assert [view.id for view in db.driver.jobs(queue="q", name=None, state=[], limit=9, before=None)] == [
        second.id,
        first.id,
    ]


def heard(listener: psycopg.Connection) -> list[tuple[str, str]]:
    """What was said so far: a later word of ours comes last."""
    listener.execute("notify stoker_ready, 'the end'")
    said = [(note.channel, note.payload) for note in listener.notifies(timeout=HANGS_S, stop_after=1)]
    while said[-1][1] != "the end":
        said += [(note.channel, note.payload) for note in listener.notifies(timeout=HANGS_S, stop_after=1)]
    return said[:-1]


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("notify", [False, True])
def test_the_keepers_hear_of_every_enqueue_once_unless_they_are_not_to(
    db: Database, other: PostgresDriver, notify: bool, keys: bool, count: int, in_transaction: bool
) -> None:
    other.conn.execute("listen stoker_ready; listen stoker_due")
    driver = PostgresDriver(db.conn, keeping=Keeping(notify=notify))
    for delay in (None, 60.0):
        job = NewJob(name="n", queue="q", payload="{}", delay=delay)
        jobs = [replace(job, idempotency_key=f"{delay}{n}" if keys else None) for n in range(count)]
        with db.conn.transaction() if in_transaction else nullcontext():
            driver.enqueue(jobs)
    assert heard(other.conn) == ([("stoker_ready", "q"), ("stoker_due", "")] if notify else [])


@pytest.mark.parametrize("notify", [False, True])
def test_requests_and_retries_are_told_of_unless_they_are_not_to(
    db: Database, other: PostgresDriver, notify: bool
) -> None:
    ended, running = db.enqueue("n", times=2)
    driver = PostgresDriver(db.conn, keeping=Keeping(notify=notify))
    driver.cancel(ended, "")
    db.driver.claim("default", 1, Holder(1, 1))
    other.conn.execute("listen stoker_ready; listen stoker_due; listen stoker_cancel")
    driver.cancel(running, "")
    driver.retry(ended)
    assert heard(other.conn) == ([("stoker_cancel", str(running)), ("stoker_ready", "default")] if notify else [])


def test_nobody_is_told_of_a_duplicate(db: Database, other: PostgresDriver) -> None:
    db.driver.enqueue([keyed(0)])
    other.conn.execute("listen stoker_ready; listen stoker_due")
    db.driver.enqueue([keyed(1)])
    assert heard(other.conn) == []


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_very_many_jobs_of_one_call_are_delayed_by_the_databases_clock(
    db: Database, keys: bool, in_transaction: bool
) -> None:
    now = datetime.now(UTC)
    times: list[dict[str, Any]] = [
        {},
        {"delay": 60.0},
        {"delay": 0.0},
        {"run_at": now + timedelta(days=2, microseconds=1)},
        {"run_at": now - timedelta(days=1)},
    ]
    texts = ["tab\t", "line\nfeed\r", "back\\slash \\N \\.", 'quote " brace {},', "NULL"]
    jobs = [
        NewJob(
            name=f"n {texts[n % 5]}",
            queue="q",
            payload=json.dumps({"n": n, "t": texts[n % 5]}, indent="\t"),
            tenant=texts[n % 5],
            priority=n % 7,
            max_attempts=1 + n % 3,
            idempotency_key=f"{n}{texts[n % 5]}" if keys else None,
            **times[n % 5],
        )
        for n in range(500)
    ]
    with db.conn.transaction() if in_transaction else nullcontext():
        stored = db.driver.enqueue(jobs)
    assert [one.id for one in stored] == sorted({one.id for one in stored})
    for one, job in list(zip(stored, jobs, strict=True))[-10:]:
        view = db.job(one.id)
        assert (view.name, view.payload, view.tenant) == (job.name, json.loads(job.payload), job.tenant)
        assert (view.priority, view.max_attempts) == (job.priority, job.max_attempts)
        assert view.idempotency_key == job.idempotency_key
        if job.delay:
            assert view.run_at and abs(view.run_at - now - timedelta(minutes=1)) < timedelta(seconds=30)
        else:
            assert view.run_at == (job.run_at if job.run_at and job.run_at > now else None)
        assert view.state == ("delayed" if view.run_at else "ready")


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize("keys", [False, True])
def test_the_async_driver_stores_the_same(db: Database, keys: bool, count: int, in_transaction: bool) -> None:
    jobs = [keyed(n, f"k{n}") if keys else NewJob(name="n", queue="q", payload="{}") for n in range(count)]

    async def enqueue() -> list[Enqueued]:
        conn = await connect_async(db.url, name="async")
        async with conn, conn.transaction() if in_transaction else nullcontext():
            return await AsyncPostgresDriver(conn).enqueue(jobs)

    stored = asyncio.run(enqueue())
    assert all(one.created for one in stored)
    live = db.driver.jobs(queue="q", name=None, state=[], limit=200, before=None)
    assert [view.id for view in reversed(live)] == [one.id for one in stored]


def test_many_jobs_leave_nothing_behind(db: Database) -> None:
    with db.conn.transaction():
        db.driver.enqueue([keyed(n, f"k{n}") for n in range(200)])
        db.driver.enqueue([NewJob(name="n", queue="q", payload="{}")] * 200)
        assert db.one("select count(*) from pg_class where relpersistence = 't'") == 0
        assert db.one("select count(*) from stoker.jobs") == 400


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
