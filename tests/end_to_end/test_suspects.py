"""Several lanes: a death is held against nobody until it happens to a job that is alone."""

import os
import signal
from pathlib import Path

from stoker.drivers.base import Holder, Settlement
from tests.processes import Supervisor, running
from tests.side_table import Database
from tests.support import until

LANES = {"STOKER_QUEUES": "default=1x4", "STOKER_APP": "tests.suspect_jobs"}
SOLO = "stoker: worker default/solo"


def suspects(db: Database, count: int, name: str = "held", payload: str = "{}") -> list[int]:
    """Jobs that were executing in a process of several lanes that died, on a host that is gone."""
    jobs = db.enqueue(name, payload, times=count)
    for run in db.driver.claim("default", count, Holder(1, 1)):
        db.driver.settle([Settlement(job_id=run.id, run_no=run.run_no, outcome="suspected")])
    return jobs


def until_no_suspicion_is_left(supervisor: Supervisor, db: Database) -> None:
    assert db.one("select count(*) from stoker.jobs where suspect") == 0
    until(lambda: not supervisor.processes(SOLO))
    supervisor.ready()


def account(db: Database, job_id: int) -> tuple[str, int, int]:
    view = db.job(job_id)
    return view.state, view.attempt, view.crashes


def test_who_was_there_runs_again_alone_and_only_the_culprit_is_blamed(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, LANES) as supervisor:
        first, second, unwanted = neighbours = db.enqueue("held", times=3)
        for job in neighbours:
            db.until_effect(job)
        (poison,) = db.enqueue("poison", '{"others": 3}')
        db.until_effect(first, times=2)
        views = [db.job(job) for job in (*neighbours, poison)]
        assert all(view.suspect and view.crashes == 0 for view in views)
        assert [view.attempt for view in views] == [1, 0, 0, 0]
        assert {attempt["outcome"] for view in views for attempt in view.attempts} == {"suspected"}
        assert views[-1].attempts[0]["error"]["signal_name"] == "SIGKILL"

        assert supervisor.processes(SOLO)
        assert "worker default/solo" in {child["name"] for child in supervisor.status()["slots"]}
        assert supervisor.readyz()["queues"]["default"]["slots"] == 1
        assert db.driver.cancel(unwanted, "no longer wanted") == "cancelled"
        others = db.enqueue("answer", times=20)
        db.until_all_done(others)
        assert [db.effects("start")[job] for job in (first, second)] == [2, 1], "one at a time"

        db.release(first, second)
        view = db.until_state(poison, "dead")
        assert (view.attempt, view.crashes, view.error["signal_name"]) == (3, 3, "SIGKILL")
        assert view.error["code"] == "STOKER_WORKER_CRASHED"
        outcomes = [attempt["outcome"] for attempt in view.attempts]
        assert outcomes == ["suspected", "retried", "retried", "dead_lettered"]
        db.until_all_done([first, second])
        assert account(db, first) == account(db, second) == ("done", 1, 0)
        until_no_suspicion_is_left(supervisor, db)


def test_a_poison_job_amid_many_good_ones(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {**LANES, "STOKER_QUEUES": "default=2x4"}) as supervisor:
        good = db.enqueue("good", times=40)
        (poison,) = db.enqueue("poison", '{"others": 1}')
        good += db.enqueue("good", times=160)
        view = db.until_state(poison, "dead")
        assert (view.crashes, view.attempt, view.error["signal_name"]) == (3, 3, "SIGKILL")
        assert [attempt["outcome"] for attempt in view.attempts].count("suspected") <= 1
        db.until_all_done(good)
        rows = db.conn.execute(
            "select distinct attempt, crashes from stoker.finished where id = any(%s)", (good,)
        ).fetchall()
        assert rows == [(1, 0)]
        assert db.one("select count(*) from stoker.jobs") == 0
        until_no_suspicion_is_left(supervisor, db)


def test_a_timeout_kill_is_about_the_lane_that_was_late(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {**LANES, "STOKER_KILL_AFTER": "1s"}) as supervisor:
        neighbours = db.enqueue("held", times=2)
        for job in neighbours:
            db.until_effect(job)
        (late,) = db.enqueue("late_and_deaf", '{"s": 600}', max_attempts=1)
        assert db.until_state(late, "dead").error["code"] == "STOKER_JOB_TIMEOUT"
        for job in neighbours:
            db.until_effect(job, times=2)
        views = [db.job(job) for job in neighbours]
        assert [(view.attempt, view.crashes, view.suspect) for view in views] == [(1, 0, False)] * 2
        assert [[one["outcome"] for one in view.attempts] for view in views] == [["interrupted"]] * 2
        assert not supervisor.processes(SOLO)
        db.release(*neighbours)
        db.until_all_done(neighbours)


def test_suspects_outlive_a_supervisor(tmp_path: Path, db: Database) -> None:
    jobs = suspects(db, 3)
    with running(tmp_path, db.url, LANES) as supervisor:
        db.until_effect(jobs[0])
        supervisor.kill_all()
    with running(tmp_path, db.url, LANES) as supervisor:
        db.release(*jobs)
        db.until_all_done(jobs)
        assert [account(db, job) for job in jobs] == [("done", 1, 0)] * 3
        assert [db.job(job).lost for job in jobs] == [1, 0, 0]
        until_no_suspicion_is_left(supervisor, db)


def test_a_drain_leaves_them_suspects_and_counts_nothing(tmp_path: Path, db: Database) -> None:
    jobs = suspects(db, 2, "attentive", '{"s": 600}')
    with running(tmp_path, db.url, LANES) as supervisor:
        db.until_effect(jobs[0])
        code, _ = supervisor.stop()
        assert code == 0
    views = [db.job(job) for job in jobs]
    assert [(view.state, view.attempt, view.suspect) for view in views] == [("ready", 0, True)] * 2


def test_who_dies_alone_is_blamed_whatever_killed_it(tmp_path: Path, db: Database) -> None:
    first, second = suspects(db, 2)
    with running(tmp_path, db.url, LANES) as supervisor:
        db.until_effect(first)
        # It runs next: who crashed goes to the end of the line.
        db.release(second)
        os.kill(supervisor.worker_pid(SOLO), signal.SIGKILL)
        db.until_effect(first, times=2)
        assert (db.job(first).crashes, db.job(first).attempt, db.job(first).suspect) == (1, 2, True)
        db.release(first)
        db.until_all_done([first, second])
        assert (account(db, first), account(db, second)) == (("done", 2, 1), ("done", 1, 0))
        until_no_suspicion_is_left(supervisor, db)


def test_a_queue_of_one_lane_frees_the_suspects_of_others(tmp_path: Path, db: Database) -> None:
    jobs = suspects(db, 5, "answer")
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=1"}) as supervisor:
        db.until_all_done(jobs)
        until_no_suspicion_is_left(supervisor, db)
        restarts = until(
            lambda: [line for line in supervisor.health("/metrics")[1].splitlines() if "_restarts_total{" in line]
        )
        assert restarts and all('reason="retired"' in line for line in restarts)
