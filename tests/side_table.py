"""What tests ask the database: the queue's rows, and the side table that says what jobs really did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from psycopg import Connection

from stoker.database import connect
from stoker.drivers.base import JobView, NewJob
from stoker.drivers.postgres import PostgresDriver
from tests.support import HANGS_S, until

EFFECTS = (
    "create table effects (job_id bigint, attempt int, pid int, what text, at timestamptz default clock_timestamp())"
)


class Database:
    """One connection of the test's own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.conn: Connection = connect(url, name="test")
        self.driver = PostgresDriver(self.conn)

    def close(self) -> None:
        self.conn.close()

    def enqueue(
        self, name: str, payload: str = "{}", *, times: int = 1, queue: str = "default", **job: Any
    ) -> list[int]:
        """Enqueue by name, without the job's own defaults."""
        jobs = [NewJob(name=name, queue=queue, payload=payload, **job)] * times
        return [stored.id for stored in self.driver.enqueue(jobs)]

    def job(self, job_id: int) -> JobView:
        view = self.driver.job(job_id)
        assert view, f"job {job_id} is lost"
        return view

    def state(self, job_id: int) -> str:
        return self.job(job_id).state

    def until_state(self, job_id: int, *states: str, within: float = HANGS_S) -> JobView:
        # The row that was seen: a moment later the job may have gone on.
        view = until(lambda: view if (view := self.job(job_id)).state in states else None, within=within)
        assert view
        return view

    def effects(self, what: str, job_ids: Sequence[int] | None = None) -> Counter[int]:
        """How often each job did this."""
        rows = self.conn.execute("select job_id from effects where what = %s", (what,)).fetchall()
        return Counter(row[0] for row in rows if job_ids is None or row[0] in job_ids)

    def until_effect(self, job_id: int, what: str = "start", *, times: int = 1, within: float = HANGS_S) -> None:
        until(lambda: self.effects(what)[job_id] >= times, within=within)

    def release(self, *job_ids: int) -> None:
        """Let jobs end that were waiting for it."""
        self.conn.cursor().executemany(
            "insert into effects (job_id, what) values (%s, 'release')", [(job_id,) for job_id in job_ids]
        )

    def one(self, query: str, *params: Any) -> Any:
        row = self.conn.execute(cast(Any, query), params).fetchone()
        return row[0] if row else None

    def until_all_done(self, job_ids: Sequence[int], within: float = HANGS_S) -> None:
        until(
            lambda: (
                self.one("select count(*) from stoker.finished where state = 'done' and id = any(%s)", list(job_ids))
                == len(set(job_ids))
            ),
            within=within,
        )
