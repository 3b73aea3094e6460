"""Two supervisors on one database: what one loses the other finds, and nobody is judged too early."""

import signal
from pathlib import Path

from tests.processes import running
from tests.side_table import Database
from tests.support import scaled, until

QUICK = {"STOKER_LEASE": "6s", "STOKER_KILL_AFTER": "1s"}


def test_a_frozen_host_is_taken_over_and_writes_nothing_afterwards(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, QUICK) as first:
        (job,) = db.enqueue("held")
        db.until_effect(job)
        frozen, worker = first.processes(), first.worker_pid()
        for process in frozen:
            process.suspend()
        with running(tmp_path, db.url, QUICK) as second:
            db.until_effect(job, times=2)
            owner = db.one("select host from stoker.jobs where id = %s", job)
            for process in frozen:
                process.resume()
            until(lambda: first.events("host.judged_dead"))
            # Who does not end the body within `kill_after` is killed.
            until(lambda: first.events("run.lease_lost") or first.events("child.killed"))
            until(lambda: worker not in [process.pid for process in first.processes()])
            assert db.one("select host from stoker.jobs where id = %s", job) == owner
            db.release(job)
            view = db.until_state(job, "done")
            assert (view.attempt, view.lost) == (1, 1)
            assert db.effects("end")[job] == 1
            assert len(first.events("run.lease_lost")) <= 1, "it is said once"
            first.ready()
            second.ready()


def test_a_healthy_long_job_runs_once(tmp_path: Path, db: Database) -> None:
    """Many times the lease, keeping the GIL, with another host watching."""
    with running(tmp_path, db.url, QUICK):
        (job,) = db.enqueue("burns", f'{{"s": {scaled(8, 60)}}}')
        db.until_effect(job)
        with running(tmp_path, db.url, {"STOKER_QUEUES": "other=1", **QUICK}):
            assert db.until_state(job, "done", within=180).attempt == 1
            assert (db.effects("start")[job], db.effects("end")[job]) == (1, 1)


def test_a_rolling_restart_loses_nothing(tmp_path: Path, db: Database) -> None:
    jobs = db.enqueue("answer", times=scaled(500, 5000))
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2"}) as old:
        (long,) = db.enqueue("deaf", '{"s": 60}', priority=-1)
        db.until_effect(long)
        old.send(signal.SIGTERM)
        with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2"}):
            old.kill_all()
            db.until_all_done(jobs, within=180)
            db.until_effect(long, times=2)
            assert db.driver.cancel(long, "enough") == "requested"
            db.until_state(long, "cancelled")
    assert set(db.effects("end", jobs)) == set(jobs)


def test_an_unknown_name_waits_for_a_host_that_knows_it(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_APP": "tests.other_app"}) as stranger:
        (job,) = db.enqueue("answer")
        until(lambda: stranger.events("job.name_unknown"))
        assert db.until_state(job, "delayed").attempt == 0
    with running(tmp_path, db.url):
        assert db.until_state(job, "done").attempt == 1
