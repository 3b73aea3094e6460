"""Kills: the job that ran is blamed, its neighbours are not, and everything runs again."""

import os
import signal
from pathlib import Path

from tests.processes import running, zombies_below
from tests.side_table import Database
from tests.support import fastest, until


def test_reserved_neighbours_of_a_crash_are_not_counted(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url):
        # Short ones first, so that a batch is reserved by the time the killer is its head.
        quick = db.enqueue("noop", times=200)
        (killer,) = db.enqueue("vanishes")
        behind = db.enqueue("answer", times=20)
        db.until_all_done([*quick, *behind])
        view = db.until_state(killer, "dead")
        assert (view.crashes, view.attempt) == (3, 3)
        assert view.error["exit_code"] == 9
        assert db.one("select max(attempt) from stoker.finished where id = any(%s)", behind) == 1
        # What ended in the same batch before a crash, and was not yet written, runs again; nothing else does.
        assert all(1 <= times <= 2 for times in db.effects("end", behind).values())


def test_a_job_that_kills_its_process_is_dead_after_three(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url) as supervisor:
        (job,) = db.enqueue("segfaults", max_attempts=20)
        view = db.until_state(job, "dead")
        assert (view.crashes, db.effects("start")[job]) == (3, 3)
        assert view.error["signal"] == signal.SIGSEGV
        supervisor.ready()


def test_a_crash_in_the_last_attempt_is_dead(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url):
        (job,) = db.enqueue("vanishes", max_attempts=1)
        assert db.until_state(job, "dead").crashes == 1


def test_a_job_whose_process_dies_after_its_end_is_blamed_too(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url):
        (job,) = db.enqueue("leaves_a_bomb")
        view = db.until_state(job, "dead")
        assert (view.crashes, db.effects("start")[job]) == (3, 3)
        good = db.enqueue("answer", times=10)
        db.until_all_done(good)


def test_a_daemon_of_a_job_goes_with_its_worker(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url) as supervisor:
        (job,) = db.enqueue("forks_a_daemon")
        db.until_all_done([job])
        until(lambda: len(supervisor.processes("sleep 60")) == 1)
        os.kill(supervisor.worker_pid(), signal.SIGKILL)
        until(lambda: not supervisor.processes("sleep 60"))
        until(lambda: not zombies_below(supervisor.pid))


def test_nothing_survives_the_supervisor(tmp_path: Path, db: Database) -> None:
    three = {"STOKER_QUEUES": "default=3", "STOKER_GRACE": "1s"}
    jobs = [db.enqueue(name, '{"s": 60}')[0] for name in ("plain", "deaf", "burns")]
    lives = 0

    def seconds_survived() -> float:
        nonlocal lives
        lives += 1
        with running(tmp_path, db.url, three) as supervisor:
            for job in jobs:
                db.until_effect(job, times=lives)
            assert {death["proof"] for death in supervisor.events("host.dead")} <= {"file lock"}, "not by waiting"
            supervisor.send(signal.SIGKILL)
            supervisor.wait()
            return supervisor.seconds_until_gone()

    seconds_survived()
    fastest(seconds_survived, below=5)


def test_a_killed_keeper_is_replaced_and_the_host_keeps_its_name(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url) as supervisor:
        host = db.one("select id from stoker.hosts")
        (job,) = db.enqueue("held")
        db.until_effect(job)
        os.kill(supervisor.worker_pid("stoker: keeper"), signal.SIGKILL)
        until(lambda: len(supervisor.events("keeper.ready")) == 2)
        supervisor.ready()
        db.release(job)
        assert db.until_state(job, "done").attempt == 1
        assert db.one("select id from stoker.hosts") == host
        assert db.effects("start")[job] == 1


def test_hard_timeout(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2", "STOKER_KILL_AFTER": "1s"}):
        (neighbour,) = db.enqueue("held")
        db.until_effect(neighbour)
        (soft,) = db.enqueue("late", '{"s": 30}', max_attempts=2)
        (deaf,) = db.enqueue("late_and_deaf", '{"s": 30}', max_attempts=1)
        for job in (soft, deaf):
            view = db.until_state(job, "dead")
            assert view.error["code"] == "STOKER_JOB_TIMEOUT"
        db.release(neighbour)
        assert db.until_state(neighbour, "done").attempt == 1


def test_running_jobs_are_cancelled(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=1", "STOKER_KILL_AFTER": "1s"}) as supervisor:
        for name in ("plain", "naps", "drowsy", "attentive", "deaf", "burns"):
            (job,) = db.enqueue(name, '{"s": 60}')
            db.until_effect(job)
            assert db.driver.cancel(job, "no longer wanted") == "requested"
            db.until_state(job, "cancelled")
            supervisor.ready()
        assert db.one("select count(*) from stoker.cancels") == 0
