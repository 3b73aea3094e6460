"""What a SIGTERM does to the work in hand: finished, unwound or killed, never lost and never counted."""

import signal
import time
from pathlib import Path

import pytest

from tests.processes import running
from tests.side_table import Database

GRACE = 3.0
SLACK = 2.0


def test_an_idle_supervisor_is_gone_at_once(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2"}) as supervisor:
        code, took = supervisor.stop()
    assert (code, took < 1.0) == (0, True), took
    assert db.one("select count(*) from stoker.hosts") == 0


def test_a_job_that_ends_within_the_grace_is_done_once(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": "25s"}) as supervisor:
        (job,) = db.enqueue("plain", '{"s": 5}')
        db.until_effect(job)
        code, took = supervisor.stop()
    assert code == 0
    assert took < 7
    assert (db.state(job), db.job(job).attempt) == ("done", 1)
    assert db.effects("start")[job] == db.effects("end")[job] == 1


@pytest.mark.parametrize("name", ["plain", "naps", "drowsy"])
def test_a_plain_long_job_is_unwound_and_handed_back(tmp_path: Path, db: Database, name: str) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": f"{GRACE}s"}) as supervisor:
        (job,) = db.enqueue(name, '{"s": 60}')
        db.until_effect(job)
        code, took = supervisor.stop()
    assert code == 0
    assert took <= GRACE + SLACK
    view = db.job(job)
    assert (view.state, view.attempt) == ("ready", 0)
    assert [attempt["outcome"] for attempt in view.attempts] == ["interrupted"]
    assert db.effects("end")[job] == 0


@pytest.mark.parametrize("name", ["deaf", "burns"])
def test_a_job_that_swallows_everything_is_killed_and_handed_back(tmp_path: Path, db: Database, name: str) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": f"{GRACE}s"}) as supervisor:
        (job,) = db.enqueue(name, '{"s": 60}')
        db.until_effect(job)
        code, took = supervisor.stop()
    assert code == 75
    assert took <= GRACE + SLACK
    assert (db.state(job), db.job(job).attempt) == ("ready", 0)


def test_a_job_that_reads_its_signal_is_elsewhere_within_a_second(tmp_path: Path, db: Database) -> None:
    other = {"STOKER_QUEUES": "spare=1"}
    with running(tmp_path, db.url) as first, running(tmp_path, db.url, other):
        (job,) = db.enqueue("attentive", '{"s": 60}')
        db.until_effect(job)
        with running(tmp_path, db.url, {"STOKER_QUEUES": "default=1"}):
            told = time.monotonic()
            first.send(signal.SIGTERM)
            db.until_effect(job, times=2, within=2)
            assert time.monotonic() - told < 1.5
            assert first.wait() == 0
            assert db.job(job).attempt == 1


def test_a_manual_stop_waits_and_aborts_nothing(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": "1s"}) as supervisor:
        (job,) = db.enqueue("attentive", '{"s": 3}')
        db.until_effect(job)
        code, _ = supervisor.stop(signal.SIGQUIT)
    assert code == 0
    assert (db.state(job), db.effects("end")[job]) == ("done", 1)


def test_a_term_binds_a_manual_stop(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": "2s"}) as supervisor:
        (job,) = db.enqueue("plain", '{"s": 60}')
        db.until_effect(job)
        supervisor.send(signal.SIGQUIT)
        code, took = supervisor.stop()
    assert (code, took < 2 + SLACK) == (0, True)
    assert db.state(job) == "ready"


def test_six_queues_stop_together(tmp_path: Path, db: Database) -> None:
    queues = [f"q{number}" for number in range(6)]
    env = {"STOKER_QUEUES": ",".join(f"{queue}=1" for queue in queues), "STOKER_GRACE": f"{GRACE}s"}
    with running(tmp_path, db.url, env) as supervisor:
        for queue in queues:
            db.enqueue("plain", '{"s": 0.2}', times=50, queue=queue)
        (last,) = db.enqueue("plain", '{"s": 60}', queue="q0", priority=-1)
        db.until_effect(last)
        told = db.one("select clock_timestamp()")
        code, took = supervisor.stop()
    assert (code, took <= GRACE + SLACK) == (0, True)
    assert db.one("select count(*) from effects where what = 'start' and at > %s + interval '1 s'", told) == 0
    assert db.one("select count(*) from stoker.jobs where state <> 'ready'") == 0
    assert db.one("select max(attempt) from stoker.jobs") == 0


def test_cancel_works_during_a_drain(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": "30s"}) as supervisor:
        (job,) = db.enqueue("plain", '{"s": 60}')
        db.until_effect(job)
        supervisor.send(signal.SIGTERM)
        assert db.driver.cancel(job, "not needed") == "requested"
        code = supervisor.wait(10)
    assert (code, db.state(job)) == (0, "cancelled")
