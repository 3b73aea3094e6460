"""Who holds an old snapshot: found whatever it is, named once, never blamed on short transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel, sql
from psycopg.conninfo import make_conninfo

from tests.keeper.rig import Host, Queue
from tests.support import until
from worker_proc import horizon
from worker_proc.horizon import HASTY_S, MANY_DEAD, OLD_S, Horizon, Pin, Watch, _find
from worker_proc.link import Link
from worker_proc.messages import Gauges

# From look to look


def session(*xids: str, name: str = "4711", open_s: float | None = None) -> Pin:
    return Pin(kind="session", name=name, xids=frozenset(xids), open_s=open_s)


def test_a_snapshot_gets_old_once_and_is_gone_once() -> None:
    watch, pin = Watch(), session("700")
    said = [watch.see(pin, dead=0, now=10.0 * n) for n in range(10)]
    assert said == [(None, None)] * 6 + [(pin, None)] + [(None, None)] * 3
    assert watch.held_s == 90
    assert watch.see(None, dead=0, now=100) == (None, pin)
    assert watch.see(None, dead=0, now=110) == (None, None)
    assert watch.held_s == 0


def test_a_busy_database_has_another_oldest_snapshot_at_every_look() -> None:
    watch = Watch()
    for n in range(50):
        assert watch.see(session(str(n), open_s=3600), dead=10**9, now=15.0 * n) == (None, None)
        assert watch.held_s == 0


def test_one_transaction_may_move_on_to_another_snapshot_under_its_own_number() -> None:
    watch = Watch()
    watch.see(session("700", "650"), dead=0, now=0)
    now = session("700", "699")
    assert watch.see(now, dead=0, now=OLD_S) == (now, None)


def test_what_was_old_before_the_first_look_is_told_at_the_second() -> None:
    watch, pin = Watch(), session("700", open_s=7200)
    assert watch.see(pin, dead=0, now=5) == (None, None)
    assert watch.see(pin, dead=0, now=20) == (pin, None)
    assert watch.held_s == 7200


def test_many_dead_rows_make_it_urgent() -> None:
    for dead, told in ((MANY_DEAD, True), (MANY_DEAD - 1, False)):
        watch, pin = Watch(), session("700")
        watch.see(pin, dead=dead, now=0)
        assert (watch.see(pin, dead=dead, now=HASTY_S) == (pin, None)) is told


def test_the_next_oldest_is_told_in_turn() -> None:
    watch, one, two = Watch(), session("700"), session("800", name="4712")
    watch.see(one, dead=0, now=0)
    watch.see(one, dead=0, now=60)
    assert watch.see(two, dead=0, now=75) == (None, one)
    assert watch.see(two, dead=0, now=135) == (two, None)


# In the database


@contextmanager
def reading(url: str, **connection: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that keeps its snapshot."""
    with psycopg.connect(url, **connection) as conn:
        conn.isolation_level = IsolationLevel.REPEATABLE_READ
        conn.execute("select count(*) from stoker.jobs")
        yield conn
        conn.rollback()


@contextmanager
def oldest_is(queue: Queue, writer: psycopg.Connection[Any]) -> Iterator[None]:
    """Once no transaction of another database of this server is older."""
    pid = writer.info.backend_pid
    number = queue.one("select backend_xid::text from pg_stat_activity where pid = %s", pid)
    until(lambda: queue.one("select pg_snapshot_xmin(pg_current_snapshot())::text") == number)
    yield


def found(queue: Queue) -> Pin | None:
    """What is there now; PostgreSQL's own workers have snapshots too, for a moment."""
    return queue.driver.run(_find(1)).pin


def until_found(queue: Queue, name: object) -> Pin:
    """What is there once everything older has passed."""
    pin = until(lambda: pin if (pin := found(queue)) and pin.name == str(name) else None)
    assert pin
    return pin


def test_a_reader_is_found_by_pid_application_and_role(queue: Queue, database_url: str) -> None:
    with reading(database_url, application_name="report") as conn:
        queue.add()
        pin = until_found(queue, conn.info.backend_pid)
        assert pin.kind == "session"
        assert (pin.application, pin.role, pin.state) == ("report", conn.info.user, "idle in transaction")
        assert pin.open_s is not None and 0 < pin.open_s < 60
    until(lambda: found(queue) is None)


def test_the_owner_of_the_oldest_number_comes_before_those_who_see_it(queue: Queue, database_url: str) -> None:
    with psycopg.connect(database_url) as writer:
        writer.execute("insert into stoker.cancels (job_id) values (1)")
        with oldest_is(queue, writer), reading(database_url) as reader:
            until_found(queue, writer.info.backend_pid)
            writer.rollback()
            until_found(queue, reader.info.backend_pid)


def test_a_transaction_that_keeps_no_snapshot_holds_nothing(queue: Queue, database_url: str) -> None:
    with psycopg.connect(database_url) as idle:
        idle.execute("select 1")
        until(lambda: found(queue) is None)


def test_sessions_of_other_databases_hold_nothing_here(queue: Queue, database_url: str) -> None:
    with psycopg.connect(make_conninfo(database_url, dbname="postgres")) as other:
        other.isolation_level = IsolationLevel.REPEATABLE_READ
        other.execute("select count(*) from pg_class")
        until(lambda: found(queue) is None)


def test_a_prepared_transaction_is_found_by_its_name(queue: Queue, database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        conn.execute("insert into stoker.cancels (job_id) values (1)")
        conn.execute("prepare transaction 'it''s'")
    try:
        pin = until_found(queue, "it's")
        assert (pin.kind, pin.application) == ("prepared", None)
    finally:
        queue.conn.execute("rollback prepared 'it''s'")


@pytest.fixture
def stranger(queue: Queue, database_url: str) -> Iterator[Queue]:
    """A role that may not see the statistics of others."""
    name = sql.Identifier(f"stranger_{queue.conn.info.dbname}")
    queue.conn.execute(sql.SQL("create role {} login").format(name))
    queue.conn.execute(sql.SQL("grant stoker_worker to {}").format(name))
    their = Queue(make_conninfo(database_url, user=name.as_string(queue.conn).strip('"')))
    yield their
    their.close()
    queue.conn.execute(sql.SQL("drop role {}").format(name))


def test_without_the_right_to_see_others_it_is_named_all_the_same(stranger: Queue, database_url: str) -> None:
    with reading(database_url, application_name="report") as conn:
        pin = until_found(stranger, conn.info.backend_pid)
        assert pin.application == "report"
        assert (pin.state, pin.open_s) == (None, None)


# The duty


@pytest.fixture
def link(host: Host, database_url: str) -> Iterator[Link]:
    link = Link(host.boot().control, url=database_url, name="work", keeping=None, prepare=lambda conn: None)  # type: ignore[arg-type]
    link.open()
    yield link
    link.drop()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if "horizon." in record.getMessage()]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "OLD_S", 0.0)
    monkeypatch.setattr(horizon, "EVERY_S", 0.02)


Looks = Callable[[int], None]


@pytest.fixture
def look(link: Link, queue: Queue, hasty: None) -> Looks:
    """Looks several times, as host 5 of the fleet."""
    queue.conn.execute(
        "insert into stoker.hosts (id, hostname, machine, pid_namespace, lock_path, lock_inode)"
        " values (5, 'h', 'm', 'p', '/l', '1:1')"
    )
    duty = Horizon(link, host_id=lambda: 5, publish=lambda held_s: None)

    def run(times: int) -> None:
        for _ in range(times):
            duty.run()

    return run


def test_one_warning_says_who_since_when_and_what_to_do(
    look: Looks, queue: Queue, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with reading(database_url, application_name="report") as conn:
        conn.execute("select 'hunter2'")
        pid = conn.info.backend_pid
        until_found(queue, pid)
        look(5)
        ((level, text),) = told(caplog)
        assert level == logging.WARNING
        for fact in (f"session {pid}", "report", "since=", "dead_rows=", f"pg_terminate_backend({pid})"):
            assert fact in text
        assert "hunter2" not in text
    until(lambda: not queue.rows("select from pg_stat_activity where pid = %s", pid))
    look(3)
    assert [level for level, text in told(caplog) if f"session {pid}" in text] == [logging.WARNING, logging.INFO]


def test_only_one_host_of_the_fleet_tells(
    look: Looks, queue: Queue, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    queue.conn.execute(
        "insert into stoker.hosts (id, hostname, machine, pid_namespace, lock_path, lock_inode)"
        " values (4, 'h', 'm', 'p', '/l', '1:1')"
    )
    with reading(database_url):
        look(3)
    assert told(caplog) == []


def test_what_a_warning_cannot_see_it_says(
    stranger: Queue, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with reading(database_url):
        pin = until(lambda: found(stranger))
        horizon._warn(pin, 61.0, 7)
    assert "pg_read_all_stats" in told(caplog)[0][1]


def test_the_keeper_sends_how_long_it_has_been_held(host: Host, hasty: None, database_url: str) -> None:
    with reading(database_url):
        boot = host.boot()
        boot.turn_until(lambda: any(gauges.oldest_snapshot_s > 0 for gauges in boot.heard(Gauges)))
        assert {queue.queue for queue in boot.heard(Gauges)[-1].queues} <= {"default"}
