"""Claims with a mark over a real index: what lands below it is found, and dead rows that must stay cost nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import Connection, IsolationLevel

from stoker.database import STEADY_PLANS
from stoker.drivers import holding
from stoker.drivers.base import Claimed, Holder
from stoker.drivers.holding import BEGINNING, Place
from stoker.drivers.postgres import PostgresDriver
from tests.schema.explaining import explain
from tests.side_table import Database
from tests.support import scaled, until
from worker_proc.marks import LEAST_S, MOST_S, Mark

HOLDER = Holder(1, 1)


def fill(db: Database, jobs: int) -> None:
    """That many ready jobs, at the end of the line."""
    db.conn.execute(
        "insert into stoker.jobs (id, pos, queue, name, payload) select n, n, 'default', 'n', '{}'"
        " from (select nextval('stoker.job_numbers') as n from generate_series(1, %s)) numbers",
        (jobs,),
    )


@dataclass
class Claimer:
    """A worker that does nothing but claim, in one of the two ways; what it claims it deletes at once."""

    conn: Connection[Any]
    by_lock: bool
    mark: Mark = field(default_factory=Mark)
    last_after: Place = BEGINNING

    def claim(self, limit: int) -> list[Claimed]:
        began = time.monotonic()
        self.last_after = self.mark.start(began)
        driver = PostgresDriver(self.conn)
        with self.conn.transaction():
            if self.by_lock:
                claimed = driver.run(holding.lock("default", limit, after=self.last_after))
            else:
                claimed = driver.run(holding.claim("default", limit, HOLDER, after=self.last_after))
            self.conn.execute("delete from stoker.jobs where id = any(%s)", ([one.id for one in claimed],))
        last = (claimed[-1].priority, claimed[-1].pos) if claimed else None
        now = time.monotonic()
        self.mark.claimed(last, took=now - began, now=now)
        return claimed

    def seconds_until(self, job_id: int) -> float:
        """How long a backlog is served, one job at a time, before this one has its turn."""
        began = asked = time.monotonic()
        while job_id not in [one.id for one in self.claim(1)]:
            # Whatever the machine does meanwhile, the first claim after that time finds it.
            assert asked - began < MOST_S, "hidden for too long"
            asked = time.monotonic()
        return time.monotonic() - began


@pytest.fixture(params=["lock", "lease"])
def claimer(request: pytest.FixtureRequest, db: Database) -> Iterator[Claimer]:
    """A claimer with a mark in the middle of a backlog."""
    conn = psycopg.connect(db.url, autocommit=True)
    conn.execute(STEADY_PLANS)
    fill(db, 10_000)
    claimer = Claimer(conn, by_lock=request.param == "lock")
    # A machine that takes its time makes the next claim a walk again.
    until(lambda: claimer.claim(100) and claimer.last_after > BEGINNING)
    yield claimer
    conn.close()


# Below the mark


def test_more_urgent_jobs_are_found(claimer: Claimer, db: Database) -> None:
    (urgent,) = db.enqueue("n", priority=-5)
    claimer.seconds_until(urgent)
    assert db.one("select count(*) from stoker.jobs") > 0


def test_all_urgent_jobs_are_found_in_order_once_the_first_is(claimer: Claimer, db: Database) -> None:
    urgent = db.enqueue("n", priority=-5, times=50)
    claimer.seconds_until(urgent[0])
    assert [claimer.claim(7)[0].id for _ in range(7)] == urgent[1::7]


def test_rows_that_come_back_are_found(claimer: Claimer, db: Database) -> None:
    back = db.one("select min(id) - 1 from stoker.jobs")
    db.conn.execute(
        "insert into stoker.jobs (id, pos, queue, name, payload) values (%s, %s, 'default', 'n', '{}')", (back, back)
    )
    claimer.seconds_until(back)


def test_commits_that_arrive_late_are_found(claimer: Claimer, db: Database) -> None:
    with psycopg.connect(db.url) as slow:
        row = slow.execute("select id from stoker.enqueue('n', p_priority => 0)").fetchone()
        assert row
        db.enqueue("n", times=1000)
        db.conn.execute("delete from stoker.jobs where pos < %s", row)
        while claimer.mark.start(time.monotonic()) <= (0, row[0]):
            claimer.claim(1)
        fill(db, 10_000)
    claimer.seconds_until(row[0])


def test_rows_another_worker_lets_go_are_found(claimer: Claimer, db: Database) -> None:
    with psycopg.connect(db.url) as other:
        held = [one.id for one in PostgresDriver(other).run(holding.lock("default", 3, after=BEGINNING))]
        claimer.claim(10)
        assert db.one("select count(*) from stoker.jobs where id = any(%s)", held) == 3
        other.rollback()
    claimer.seconds_until(held[0])
    assert [one.id for one in claimer.claim(2)] == held[1:]


def test_a_worker_leaves_nothing_before_it_sleeps(claimer: Claimer, db: Database) -> None:
    (urgent,) = db.enqueue("n", priority=-5)
    while claimer.claim(500) or claimer.mark.active:
        pass
    assert db.one("select count(*) from stoker.jobs") == 0
    assert urgent


def test_without_dead_rows_in_the_way_hidden_ones_wait_about_50_ms(claimer: Claimer, db: Database) -> None:
    db.conn.execute("vacuum stoker.jobs")
    waits = []
    for _ in range(5):
        (urgent,) = db.enqueue("n", priority=-5)
        waits.append(claimer.seconds_until(urgent))
    # The least is what the rule makes it; a busy machine adds to all of them.
    assert min(waits) < 5 * LEAST_S


# A held snapshot


@pytest.fixture
def unvacuumed(db: Database) -> Iterator[Database]:
    """Vacuum sets bits that every lock of a row looks at: pages are only to be compared without it."""
    db.conn.execute("alter table stoker.jobs set (autovacuum_enabled = off)")
    yield db
    db.conn.execute("alter table stoker.jobs reset (autovacuum_enabled)")


@pytest.mark.parametrize("by_lock", [True, False], ids=["lock", "lease"])
def test_claims_stay_flat_while_a_snapshot_is_held(unvacuumed: Database, by_lock: bool) -> None:
    jobs, batch = scaled(20_000, 200_000), 200
    name = "lock_batch" if by_lock else "claim_batch"
    params = {"queue": "default", "limit": batch} | ({} if by_lock else {"host": 1, "claim_no": 1})
    fill(unvacuumed, jobs)
    with psycopg.connect(unvacuumed.url, autocommit=True) as conn, psycopg.connect(unvacuumed.url) as reader:
        conn.execute(STEADY_PLANS)
        reader.isolation_level = IsolationLevel.REPEATABLE_READ
        reader.execute("select 1 from stoker.jobs limit 1")

        def touched(after: Place) -> int:
            return explain(conn, name, params | {"mark_priority": after[0], "mark_pos": after[1]}).buffers

        after, costs = BEGINNING, []
        while rows := PostgresDriver(conn).run(holding.lock("default", batch, after=after)):
            costs.append(touched(after))
            conn.execute("delete from stoker.jobs where id = any(%s)", ([one.id for one in rows],))
            after = (rows[-1].priority, rows[-1].pos)
        assert len(costs) == jobs // batch
        first, last = sum(costs[:5]) / 5, sum(costs[-5:]) / 5
        assert last <= 1.2 * first + 20, (costs[:5], costs[-5:])
        # A row's page is counted once for all dead rows that follow each other on it.
        assert touched(after) <= 10 < jobs // 100 < touched(BEGINNING)
