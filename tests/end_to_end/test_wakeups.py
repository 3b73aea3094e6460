"""How many workers a job wakes, and how one is found when nobody is woken."""

from pathlib import Path
from typing import Any

import pytest

from tests.processes import running
from tests.side_table import Database
from tests.support import until

WORKERS = 8
# Nobody looks by itself for the time of a test.
ENV = {"STOKER_QUEUES": f"default={WORKERS}", "STOKER_POLL_EVERY": "60s"}
LAST_SEEN = """
select pid, query_start from pg_stat_activity
where datname = current_database() and application_name like 'stoker: worker default/%'
"""


def claims_by(db: Database) -> dict[int, Any]:
    """When each worker last asked the database for anything."""
    return dict(db.conn.execute(LAST_SEEN).fetchall())


def settle_down(db: Database) -> dict[int, Any]:
    """Wait until no worker asks any more."""
    seen = claims_by(db)

    def quiet() -> bool:
        nonlocal seen
        before, seen = seen, claims_by(db)
        return before == seen and len(seen) == WORKERS and db.one("select count(*) from stoker.jobs") == 0

    until(lambda: all(quiet() for _ in range(20)))
    return seen


def test_one_job_wakes_one_of_many_idle_workers(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, ENV):
        settle_down(db)
        # The worker that is asked first learns how long the job takes; one that knows nothing cannot ask for two.
        for _ in range(5):
            db.enqueue("noop", "{}")
            settle_down(db)

        def asked() -> int:
            before = settle_down(db)
            (job,) = db.enqueue("noop", "{}")
            db.until_state(job, "done")
            after = settle_down(db)
            return sum(after[pid] != before[pid] for pid in before)

        # Who has not asked after 20 ms because it got no processor is no longer waited for, and the next one is woken.
        until(lambda: asked() == 1)


def test_many_long_jobs_of_one_notification_keep_every_worker_busy(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, ENV | {"STOKER_GRACE": "1s"}):
        settle_down(db)
        with db.conn.transaction():
            db.enqueue("plain", '{"s": 20}', times=WORKERS)
        # One that nobody was woken for would be run by somebody who ran another one before.
        until(lambda: db.one("select count(distinct pid) from effects") == WORKERS)


@pytest.mark.parametrize("notify", ["on", "off"])
def test_jobs_that_nobody_was_told_of_are_found_by_looking(tmp_path: Path, db: Database, notify: str) -> None:
    with running(tmp_path, db.url, {"STOKER_POLL_EVERY": "100ms", "STOKER_NOTIFY": notify}):
        db.conn.execute(
            "insert into stoker.jobs (pos, queue, name, payload, state)"
            " select nextval('stoker.job_numbers'), 'default', 'noop', '{}', 'ready' from generate_series(1, 3)"
        )
        until(lambda: db.one("select count(*) from stoker.finished") == 3)
