"""Days of finished jobs: made ahead, filled from the net, removed whole or page by page."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from stoker.settings import RetentionSettings, Settings
from tests.keeper.rig import Host, Queue
from tests.support import until
from worker_proc import retention
from worker_proc.control import Control
from worker_proc.link import Link
from worker_proc.retention import Days, Purging

DAY = 86_400.0


@pytest.fixture
def link(host: Host, database_url: str) -> Iterator[Link]:
    control: Control = host.boot().control
    link = Link(control, url=database_url, name="work", keeping=None, prepare=lambda conn: None)  # type: ignore[arg-type]
    link.open()
    yield link
    link.drop()


@pytest.fixture(autouse=True)
def no_days(queue: Queue) -> Iterator[None]:
    """Each test begins and ends without days."""
    drop_days(queue)
    yield
    drop_days(queue)


def days_of(queue: Queue, state: str) -> list[str]:
    found = queue.rows(
        "select substring(c.relname from '[0-9]{8}$') from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = to_regclass('stoker.finished_' || %s) and c.relname ~ '[0-9]{8}$' order by 1",
        state,
    )
    return [row[0] for row in found]


def drop_days(queue: Queue) -> None:
    for state in ("done", "dead", "cancelled"):
        for day in days_of(queue, state):
            queue.conn.execute(f"drop table stoker.finished_{state}_{day}")  # type: ignore[call-overload]


def today(queue: Queue) -> dt.date:
    day: dt.date = queue.one("select (clock_timestamp() at time zone 'UTC')::date")
    return day


def finish(queue: Queue, ago: str, *, state: str = "done", count: int = 1) -> None:
    queue.conn.execute(
        "insert into stoker.finished (id, run_no, finished_at, created_at, attempt, max_attempts, crashes, lost,"
        " priority, state, queue, name, payload) select n, 1, clock_timestamp() - %s::interval, now(), 1, 1, 0, 0, 0,"
        " %s, 'default', 'job', '{}' from generate_series(1, %s) n",
        (ago, state, count),
    )


def finished(queue: Queue, state: str = "done") -> int:
    count: int = queue.one("select count(*) from stoker.finished where state = %s", state)
    return count


def keeping(**seconds: float) -> Settings:
    return Settings(retention=RetentionSettings(**seconds))


def test_a_week_and_more_is_made_ahead_for_every_state(link: Link, queue: Queue) -> None:
    Days(link, keep=RetentionSettings()).run()
    first = today(queue)
    wanted = [(first + dt.timedelta(n)).strftime("%Y%m%d") for n in range(9)]
    assert {state: days_of(queue, state) for state in ("done", "dead", "cancelled")} == dict.fromkeys(
        ("done", "dead", "cancelled"), wanted
    )
    Days(link, keep=RetentionSettings()).run()
    assert days_of(queue, "done") == wanted


def test_a_settled_job_lands_in_its_day(link: Link, queue: Queue) -> None:
    Days(link, keep=RetentionSettings()).run()
    queue.add()
    (run,) = queue.claim(1, 1)
    queue.settle(run, "completed")
    where = queue.one("select tableoid::regclass::text from stoker.finished")
    assert where == f"stoker.finished_done_{today(queue):%Y%m%d}"


def test_what_fell_into_the_net_moves_into_its_day_and_goes_with_it(link: Link, queue: Queue) -> None:
    finish(queue, "0 s")
    finish(queue, "3 days", count=5)
    finish(queue, "3 days", state="dead")
    Days(link, keep=RetentionSettings(done=DAY)).run()
    assert queue.one("select count(*) from stoker.finished_done_default") == 0
    assert (finished(queue), finished(queue, "dead")) == (1, 1)
    assert len(days_of(queue, "done")) == 9 and len(days_of(queue, "dead")) == 10


def test_a_day_goes_when_all_of_it_is_too_old(link: Link, queue: Queue) -> None:
    finish(queue, "1 day")
    Days(link, keep=RetentionSettings(done=DAY)).run()
    assert finished(queue) == 1, "that day is not over for a day yet"
    Days(link, keep=RetentionSettings(done=0)).run()
    assert finished(queue) == 0


def test_a_reader_in_the_way_holds_nothing_up_and_the_day_goes_later(
    link: Link, queue: Queue, database_url: str
) -> None:
    finish(queue, "3 days")
    Days(link, keep=RetentionSettings(done=30 * DAY)).run()
    days = Days(link, keep=RetentionSettings(done=DAY), sleep=lambda seconds: None)
    with psycopg.connect(database_url) as reader:
        reader.execute("select count(*) from stoker.finished")
        days.run()
        assert finished(queue) == 1
        queue.add()
        (run,) = queue.claim(1, 1)
        queue.conn.execute("set statement_timeout = '10s'")
        queue.settle(run, "completed")
    days.run()
    assert finished(queue) == 1 and len(days_of(queue, "done")) == 9


def test_a_settlement_waits_at_most_for_the_lock_timeout_of_a_detach(
    link: Link, queue: Queue, database_url: str
) -> None:
    finish(queue, "3 days")
    Days(link, keep=RetentionSettings(done=30 * DAY)).run()
    with psycopg.connect(database_url) as reader:
        reader.execute("select count(*) from stoker.finished_done")
        with pytest.raises(psycopg.errors.LockNotAvailable), link.limited() as db:
            db.conn.execute("select stoker.detach_day('done', (now() - interval '3 days')::date)")


def test_an_attach_in_somebodys_way_is_tried_again_soon(link: Link, queue: Queue, database_url: str) -> None:
    days = Days(link, keep=RetentionSettings(), sleep=lambda seconds: None)
    with psycopg.connect(database_url) as reader:
        reader.execute("select count(*) from stoker.finished")
        days.run()
        assert days_of(queue, "done") == []
    days.run()
    assert len(days_of(queue, "done")) == 9


def test_only_one_keeper_does_it_at_a_time(link: Link, queue: Queue) -> None:
    queue.rows("select pg_advisory_lock(%s)", retention.singleton.RETENTION)
    Days(link, keep=RetentionSettings()).run()
    assert days_of(queue, "done") == []
    queue.rows("select pg_advisory_unlock(%s)", retention.singleton.RETENTION)
    Days(link, keep=RetentionSettings()).run()
    assert len(days_of(queue, "done")) == 9
    assert queue.advisory_locks() == 0


def test_a_state_kept_for_less_than_a_day_is_purged_page_by_page(link: Link, queue: Queue) -> None:
    finish(queue, "2 hours", count=2500)
    finish(queue, "10 minutes", count=3)
    finish(queue, "2 hours", state="dead", count=4)
    purging = Purging(link, keep=RetentionSettings(done=3600))
    began = retention.time.monotonic()
    purging.run()
    assert finished(queue) == 1503
    ended = retention.time.monotonic()
    assert purging.due_at <= ended + 2 * (ended - began), "there is more, and claims have the other two thirds"
    purging._behind_since -= retention.PATIENCE_S
    purging.run()
    assert purging.due_at <= retention.time.monotonic(), "a third of the time is not enough"
    purging.run()
    assert (finished(queue), finished(queue, "dead")) == (3, 4)
    assert purging.due_at > retention.time.monotonic() + 30


def test_nothing_is_kept_with_a_retention_of_zero(link: Link, queue: Queue) -> None:
    finish(queue, "1 ms", state="cancelled")
    Purging(link, keep=RetentionSettings(cancelled=0)).run()
    assert finished(queue, "cancelled") == 0


def test_attempts_of_ended_jobs_go_by_age_and_those_of_live_jobs_stay(link: Link, queue: Queue) -> None:
    (live,) = queue.add()
    queue.conn.execute(
        "insert into stoker.attempts (job_id, run_no, attempt, outcome, ended_at)"
        " values (%s, 1, 1, 'retried', now() - interval '40 days'), (-1, 1, 1, 'retried', now() - interval '40 days'),"
        " (-2, 1, 1, 'retried', now() - interval '20 days')",
        (live,),
    )
    Purging(link, keep=RetentionSettings()).run()
    assert {row[0] for row in queue.rows("select job_id from stoker.attempts")} == {live, -2}


def test_a_keeper_makes_the_days_when_it_starts(make_host: Callable[..., Host], queue: Queue) -> None:
    boot: Any = make_host("b").boot()
    boot.turn_until(lambda: len(days_of(queue, "cancelled")) == 9)
    until(lambda: queue.advisory_locks() <= 1)
