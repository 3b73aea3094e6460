"""What a SIGTERM does to the work in hand: finished, unwound or killed, never lost and never counted."""

import math
import os
import signal
import time
from pathlib import Path

from tests.processes import running
from tests.side_table import Database
from tests.support import fastest, until

GRACE = 3.0
# A plain body is unwound a tenth of the grace before the deadline, and half a second at most: the most time for it.
UNWINDING_GRACE = 5.0
SLACK = 2.0
# The unwinding has half a second, and the keeper 1.5 s to hand back what was killed. Who gets no processor meanwhile
# can do neither: then everything is the next host's, which another try has to show.
TRIES = 4


def test_an_idle_supervisor_is_gone_at_once(tmp_path: Path, db: Database) -> None:
    def life() -> float:
        with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2"}) as supervisor:
            code, took = supervisor.stop()
        assert code == 0
        assert db.one("select count(*) from stoker.hosts") == 0
        return took

    fastest(life, below=1.0)


def test_a_job_that_ends_within_the_grace_is_done_once(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": "25s"}) as supervisor:
        (job,) = db.enqueue("held")
        db.until_effect(job)
        supervisor.send(signal.SIGTERM)
        until(lambda: supervisor.events("drain.started"))
        db.release(job)
        released = time.monotonic()
        assert supervisor.wait() == 0
        assert time.monotonic() - released < 15
    assert (db.state(job), db.job(job).attempt) == ("done", 1)
    assert db.effects("start")[job] == db.effects("end")[job] == 1


def test_a_manual_stop_outlives_its_keeper(tmp_path: Path, db: Database) -> None:
    """It may take hours, and without a keeper other hosts would judge this one dead in seconds."""
    with running(tmp_path, db.url) as supervisor:
        (job,) = db.enqueue("held")
        db.until_effect(job)
        supervisor.send(signal.SIGQUIT)
        until(lambda: supervisor.events("drain.started"))
        os.kill(supervisor.worker_pid("stoker: keeper"), signal.SIGKILL)
        until(lambda: len(supervisor.events("keeper.ready")) == 2)
        db.release(job)
        assert supervisor.wait() == 0
    assert (db.state(job), db.job(job).attempt, db.effects("start")[job]) == ("done", 1, 1)
    assert db.one("select count(*) from stoker.hosts") == 0


def test_plain_long_jobs_are_unwound_and_handed_back(tmp_path: Path, db: Database) -> None:
    env = {"STOKER_QUEUES": "default=3", "STOKER_GRACE": f"{UNWINDING_GRACE}s"}

    def drain() -> float:
        db.conn.execute("truncate stoker.jobs, stoker.attempts")
        with running(tmp_path, db.url, env) as supervisor:
            jobs = [db.enqueue(name, '{"s": 60}')[0] for name in ("plain", "naps", "drowsy")]
            for job in jobs:
                db.until_effect(job)
            code, took = supervisor.stop()
        assert code in (0, 75)
        assert not db.effects("end", jobs)
        if code:
            return math.inf
        for view in map(db.job, jobs):
            assert (view.state, view.attempt) == ("ready", 0), view
            assert [attempt["outcome"] for attempt in view.attempts] == ["interrupted"], view
        return took

    fastest(drain, below=UNWINDING_GRACE + SLACK, tries=TRIES)


def test_jobs_that_swallow_everything_are_killed_and_handed_back(tmp_path: Path, db: Database) -> None:
    def drain() -> float:
        db.conn.execute("truncate stoker.jobs, stoker.attempts")
        with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2", "STOKER_GRACE": f"{GRACE}s"}) as supervisor:
            jobs = [db.enqueue(name, '{"s": 60}')[0] for name in ("deaf", "burns")]
            for job in jobs:
                db.until_effect(job)
            code, took = supervisor.stop()
        assert code == 75
        assert not db.effects("end", jobs)
        handed_back = [(view.state, view.attempt) for view in map(db.job, jobs)] == [("ready", 0)] * 2
        return took if handed_back else math.inf

    fastest(drain, below=GRACE + SLACK, tries=TRIES)


def test_a_job_that_reads_its_signal_is_elsewhere_within_a_second(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "spare=1"}):
        fastest(lambda: _seconds_until_elsewhere(tmp_path, db), below=1.5)


def _seconds_until_elsewhere(directory: Path, db: Database) -> float:
    """From the signal to the start on the other supervisor, by the database's clock."""
    with running(directory, db.url) as first:
        (job,) = db.enqueue("attentive", '{"s": 60}')
        db.until_effect(job)
        with running(directory, db.url):
            told = db.one("select clock_timestamp()")
            first.send(signal.SIGTERM)
            db.until_effect(job, times=2)
            assert first.wait() == 0
            assert db.job(job).attempt == 1
            assert db.driver.cancel(job, "seen") == "requested"
            db.until_state(job, "cancelled")
    return float(db.one("select extract(epoch from max(at) - %s) from effects where job_id = %s", told, job))


def test_a_manual_stop_waits_and_aborts_nothing(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": "1s"}) as supervisor:
        (job,) = db.enqueue("attentive", '{"s": 3}')
        db.until_effect(job)
        code, _ = supervisor.stop(signal.SIGQUIT)
    assert code == 0
    assert (db.state(job), db.effects("end")[job]) == ("done", 1)


def test_a_term_binds_a_manual_stop(tmp_path: Path, db: Database) -> None:
    def drain() -> float:
        db.conn.execute("truncate stoker.jobs, stoker.attempts")
        with running(tmp_path, db.url, {"STOKER_GRACE": "4s"}) as supervisor:
            (job,) = db.enqueue("plain", '{"s": 60}')
            db.until_effect(job)
            supervisor.send(signal.SIGQUIT)
            until(lambda: supervisor.events("drain.started"))
            code, took = supervisor.stop()
        assert code in (0, 75)
        assert code or db.state(job) == "ready"
        return math.inf if code else took

    fastest(drain, below=4 + SLACK, tries=TRIES)


def test_six_queues_stop_together(tmp_path: Path, db: Database) -> None:
    queues = [f"q{number}" for number in range(6)]
    env = {"STOKER_QUEUES": ",".join(f"{queue}=1" for queue in queues), "STOKER_GRACE": f"{UNWINDING_GRACE}s"}

    def drain() -> float:
        db.conn.execute("truncate stoker.jobs, stoker.attempts, effects")
        with running(tmp_path, db.url, env) as supervisor:
            for queue in queues:
                db.enqueue("plain", '{"s": 0.2}', times=50, queue=queue)
            (last,) = db.enqueue("plain", '{"s": 60}', queue="q0", priority=-1)
            db.until_effect(last)
            began = time.monotonic()
            supervisor.send(signal.SIGTERM)
            until(lambda: supervisor.events("drain.started"))
            told = db.one("select clock_timestamp()")
            code, took = supervisor.wait(), time.monotonic() - began
        assert code in (0, 75)
        # Each worker may have looked at the phase just before.
        late = "select count(*) from effects where what = 'start' and at > %s group by pid"
        assert {row[0] for row in db.conn.execute(late, (told,))} <= {1}
        if code:
            return math.inf
        assert db.one("select count(*) from stoker.jobs where state <> 'ready'") == 0
        assert db.one("select max(attempt) from stoker.jobs") == 0
        return took

    fastest(drain, below=UNWINDING_GRACE + SLACK, tries=TRIES)


def test_cancel_works_during_a_drain(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": "30s"}) as supervisor:
        (job,) = db.enqueue("plain", '{"s": 60}')
        db.until_effect(job)
        supervisor.send(signal.SIGTERM)
        until(lambda: supervisor.events("drain.started"))
        assert db.driver.cancel(job, "not needed") == "requested"
        code = supervisor.wait(20)
    assert (code, db.state(job)) == (0, "cancelled")
