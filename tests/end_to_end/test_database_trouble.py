"""The database goes away in every way it can; nothing is lost and nothing runs twice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Supervisor, running
from tests.proxy import Proxy
from tests.side_table import Database
from tests.support import fastest, until


@pytest.fixture
def proxy(db: Database) -> Iterator[Proxy]:
    with Proxy(db.url) as proxy:
        yield proxy


@pytest.mark.parametrize("busy", [False, True])
def test_a_drain_under_a_blackhole_is_on_time(tmp_path: Path, db: Database, proxy: Proxy, busy: bool) -> None:
    env = {"STOKER_QUEUES": "default=2", "STOKER_GRACE": "4s", "TEST_SIDE_TABLE": db.url}

    def drain() -> float:
        with running(tmp_path, proxy.url, env) as supervisor:
            if busy:
                (job,) = db.enqueue("held")
                db.until_effect(job)
            proxy.blackhole()
            if busy:
                db.release(job)
            code, took = supervisor.stop()
            assert code == (75 if busy else code)
            proxy.heal()
        if busy:
            with running(tmp_path, db.url):
                db.until_state(job, "done")
        return took

    fastest(drain, below=4 + 2, tries=3)


def test_terminated_backends_come_back(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2"}) as supervisor:
        for _ in range(5):
            db.conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            (job,) = db.enqueue("noop")
            db.until_state(job, "done")
        supervisor.ready()
        assert len(supervisor.events("worker.ready")) >= 2

        def told(event: str) -> int:
            return sum(one["child"].startswith("worker") for one in supervisor.events(event))

        # The last word on each loss is that it is over.
        until(lambda: told("child.resumed") == told("child.waiting") > 0)
        assert "Pipeline" not in supervisor.log


@pytest.mark.parametrize("queues", ["default=2", "default=1x4"])
def test_terminated_backends_leave_what_executes_alone(tmp_path: Path, db: Database, queues: str) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": queues, "TEST_SIDE_TABLE": db.url}):
        jobs = [db.enqueue(name)[0] for name in ("held", "held_async")]
        for job in jobs:
            db.until_effect(job)
        for _ in range(3):
            db.conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'stoker: worker%'"
            )
            others = db.enqueue("noop", times=3)
            if queues.endswith("x4"):
                db.until_all_done(others)
        db.release(*jobs)
        db.until_all_done(jobs)
        assert set(db.effects("start", jobs).values()) == {1}
        assert db.one("select max(run_no) from stoker.finished where id = any(%s)", jobs) == 1


def test_started_before_the_database(tmp_path: Path, db: Database, proxy: Proxy) -> None:
    proxy.refuse()
    supervisor = Supervisor(tmp_path, proxy.url).start()
    try:
        until(lambda: "WaitingForDatabase" in supervisor.log or supervisor.events("database.waiting"))
        assert supervisor.alive()
        until(lambda: supervisor.health("/livez")[0] == 200)
        assert supervisor.health("/readyz")[0] == 503
        proxy.heal()
        supervisor.ready()
        assert supervisor.stop()[0] == 0
    finally:
        supervisor.end()


def test_a_keeper_in_doubt_stops_claims_and_nothing_else(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_LEASE": "6s", "STOKER_KILL_AFTER": "1s"}) as supervisor:
        (job,) = db.enqueue("held")
        db.until_effect(job)
        keeper = supervisor.worker_pid("stoker: keeper")
        os.kill(keeper, signal.SIGSTOP)
        until(lambda: supervisor.health("/readyz")[0] == 503)
        os.kill(keeper, signal.SIGCONT)
        db.release(job)
        view = db.until_state(job, "done")
        assert (view.attempt, db.effects("start")[job]) == (1, 1)
        supervisor.ready()
