"""Signals at every moment and to everybody: always out in time, nothing lost, nobody left."""

import contextlib
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.processes import Supervisor, handles, running
from tests.side_table import Database
from tests.support import SOON_S, fastest, scaled, until

GRACE = 10.0


def test_a_term_to_the_whole_group_drains(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2", "STOKER_GRACE": f"{GRACE}s"}) as supervisor:
        jobs = db.enqueue("plain", '{"s": 1}', times=2)
        for job in jobs:
            db.until_effect(job)
        os.killpg(supervisor.pid, signal.SIGTERM)
        assert supervisor.wait(GRACE + 2) == 0
    assert db.effects("start", jobs) == db.effects("end", jobs) == dict.fromkeys(jobs, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_every_process_drains(tmp_path: Path, db: Database, number: int) -> None:
    """As systemd does with KillMode=control-group."""
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2", "STOKER_GRACE": f"{GRACE}s"}) as supervisor:
        jobs = db.enqueue("plain", '{"s": 1}', times=2)
        for job in jobs:
            db.until_effect(job)
        for process in supervisor.processes():
            # The first ones may be through by then.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        assert supervisor.wait(GRACE + 2) == 0
    assert db.effects("end", jobs) == dict.fromkeys(jobs, 1)
    assert db.one("select count(*) from stoker.finished where state = 'done'") == 2


def test_a_term_to_one_worker_drains_it_and_brings_another(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url) as supervisor:
        (job,) = db.enqueue("held")
        db.until_effect(job)
        worker = supervisor.worker_pid()
        os.kill(worker, signal.SIGTERM)
        until(lambda: supervisor.events("child.stops"))
        db.release(job)
        assert db.until_state(job, "done").attempt == 1
        until(lambda: supervisor.processes("stoker: worker") and supervisor.worker_pid() != worker)
        (next_job,) = db.enqueue("answer")
        db.until_state(next_job, "done")


@pytest.mark.parametrize(("times", "pause"), [(2, 0.2), (20, 0.04)])
def test_impatient_terms_are_one_term(tmp_path: Path, db: Database, times: int, pause: float) -> None:
    with running(tmp_path, db.url, {"STOKER_GRACE": f"{GRACE}s"}) as supervisor:
        (job,) = db.enqueue("plain", '{"s": 2}')
        db.until_effect(job)
        began = time.monotonic()
        for _ in range(times):
            # Whatever comes a second later is another one.
            if time.monotonic() - began < 0.9:
                supervisor.send(signal.SIGTERM)
            time.sleep(pause)
        assert supervisor.wait(GRACE + 2) == 0
        assert "Traceback" not in supervisor.log
    assert (db.state(job), db.effects("start")[job]) == ("done", 1)


def test_a_second_term_hurries_and_a_third_kills(tmp_path: Path, db: Database) -> None:
    def seconds_after_the_third() -> float:
        db.conn.execute("truncate stoker.jobs, stoker.attempts")
        with running(tmp_path, db.url, {"STOKER_GRACE": "60s"}) as supervisor:
            (job,) = db.enqueue("deaf", '{"s": 60}')
            db.until_effect(job)
            for heard in ("drain.started", "drain.tightened"):
                supervisor.send(signal.SIGTERM)
                until(lambda: supervisor.events(heard))  # noqa: B023
                # Sooner it would be taken for the same one.
                time.sleep(1.05)
            code, took = supervisor.stop()
        assert code == 75
        view = db.job(job)
        # The keeper has 1.5 s of processor time to hand it back.
        return took if (view.state, view.attempt) == ("ready", 0) else math.inf

    # Those are the keeper's; the second TERM alone would leave four more.
    fastest(seconds_after_the_third, below=3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_during_start_up(tmp_path: Path, db: Database, number: int) -> None:
    for _ in range(scaled(4, 200)):
        _signal_while_starting(Supervisor(tmp_path, db.url, STOKER_QUEUES="default=2"), number)


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
def test_a_term_to_pid_1_during_start_up(tmp_path: Path, db: Database) -> None:
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    for _ in range(scaled(3, 50)):
        supervisor = Supervisor(tmp_path, db.url).start((*namespace, sys.executable, "-m", "supervisor"))
        try:
            until(lambda: psutil.Process(supervisor.pid).children())  # noqa: B023
            (inner,) = psutil.Process(supervisor.pid).children()
            # What has no handler yet is never delivered to PID 1.
            until(lambda: handles(inner.pid, signal.SIGTERM))  # noqa: B023
            time.sleep(random.uniform(0.0, 0.8))
            inner.terminate()
            assert supervisor.wait(20) == 0, supervisor.log
        finally:
            supervisor.end()


# `stoker run`, which gets a signal in the last moment before it is the supervisor.
AT_THE_EXEC = """
import os, signal, sys
number, become = int(sys.argv.pop()), os.execve
os.execve = lambda *command: (os.kill(os.getpid(), number), become(*command))
sys.argv = ["stoker", "run"]
from stoker.console.entry import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_while_run_becomes_the_supervisor(tmp_path: Path, db: Database, number: int) -> None:
    supervisor = Supervisor(tmp_path, db.url).start((sys.executable, "-c", AT_THE_EXEC, str(int(number))))
    try:
        assert supervisor.wait() == 0, supervisor.log
        assert not supervisor.log
    finally:
        supervisor.end()


def _signal_while_starting(supervisor: Supervisor, number: int) -> None:
    supervisor.start()
    try:
        time.sleep(random.uniform(0.0, 1.2))
        supervisor.send(number)
        until(lambda: supervisor.ended() or _was_forgotten(supervisor.log), within=SOON_S)
        if not supervisor.ended():
            supervisor.send(number)
        code = supervisor.wait(20)
        assert code in (0, -number) or _hit_the_bare_interpreter(supervisor.log), supervisor.log
        until(lambda: not supervisor.processes(), within=SOON_S)
    finally:
        supervisor.end()


def _hit_the_bare_interpreter(log: str) -> bool:
    """An INT before the first line of ours ran: Python's own handler, Python's own traceback."""
    return log.rstrip().endswith("KeyboardInterrupt") and "/supervisor/" not in log


def _was_forgotten(log: str) -> bool:
    """An INT before the first line of ours ran, in a place from where Python lets nothing be raised."""
    return log.startswith("Exception ignored in") and "KeyboardInterrupt" in log and "/supervisor/" not in log


def test_no_worker_comes_back_during_a_drain(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2", "STOKER_GRACE": "30s"}) as supervisor:
        jobs = db.enqueue("held", times=2)
        for job in jobs:
            db.until_effect(job)
        supervisor.send(signal.SIGTERM)
        until(lambda: supervisor.events("drain.started"))
        before = {process.pid for process in supervisor.processes()}
        (killed,) = [process for process in supervisor.processes() if process.pid == _runner_of(jobs[0], db)]
        killed.kill()
        # It is free at once, and nobody is there to take it.
        db.until_state(jobs[0], "ready")
        db.release(*jobs)
        while supervisor.process and supervisor.process.poll() is None:
            assert {process.pid for process in supervisor.processes()} <= before
            time.sleep(0.05)
        assert supervisor.wait() == 0
    assert [db.state(job) for job in jobs] == ["ready", "done"]
    assert set(db.effects("start").values()) == {1}


def _runner_of(job: int, db: Database) -> int:
    return int(db.one("select pid from effects where job_id = %s and what = 'start'", job))


def test_all_workers_killed_then_a_term(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2"}) as supervisor:
        for process in supervisor.processes("stoker: worker"):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        assert supervisor.stop(within=20)[0] in (0, 75)


def test_a_stopped_worker_does_not_hold_up_a_drain(tmp_path: Path, db: Database) -> None:
    def drain() -> float:
        with running(tmp_path, db.url, {"STOKER_GRACE": "2s"}) as supervisor:
            os.kill(supervisor.worker_pid(), signal.SIGSTOP)
            code, took = supervisor.stop()
        assert code == 75
        return took

    fastest(drain, below=2 + 2)
