"""kill -9 of a worker and of everything at once, many times: how soon the job runs again."""

import os
import signal
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.figures import Figures
from tests.processes import Supervisor, running
from tests.side_table import Database
from tests.support import fastest, scaled, until

# Hosts that are killed one after the other, and those that are killed together.
WAVES, HOSTS = scaled(1, 5), scaled(1, 10)
# As on another machine: who is there cannot be seen, nor the file that proves a death on the same one.
ELSEWHERE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c")
HIDDEN = 'mount -t tmpfs none "$STOKER_RUNTIME_DIR" && exec "$@"'


def seconds_until_started_again(db: Database, job: int, since: float) -> float:
    """From a moment (time.time()) to the job's second start; test and server share a clock."""
    db.until_effect(job, times=2)
    last = "select extract(epoch from max(at)) from effects where what = 'start' and job_id = %s"
    return float(db.one(last, job)) - since


def test_the_job_of_a_killed_worker(tmp_path: Path, db: Database, figures: Figures) -> None:
    took = []
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=2"}) as supervisor:
        for _ in range(scaled(3, 50)):
            (job,) = db.enqueue("held")
            db.until_effect(job)
            killed = time.time()
            os.kill(db.one("select pid from effects where job_id = %s", job), signal.SIGKILL)
            took.append(seconds_until_started_again(db, job, killed))
            db.release(job)
            view = db.until_state(job, "done")
            assert (view.attempt, view.crashes) == (2, 1)
            (attempt,) = view.attempts
            assert attempt["error"]["code"] == "STOKER_WORKER_CRASHED"
            assert attempt["error"]["signal_name"] == "SIGKILL"
            supervisor.ready()
    figures.seconds("kill -9 of a busy worker, until its job runs again", took, median=0.1, most=1.0)


def test_a_restart_after_everything_was_killed(tmp_path: Path, db: Database, figures: Figures) -> None:
    took = []
    killed: list[int] = []
    for _ in range(scaled(1, 50) + 1):
        with running(tmp_path, db.url) as supervisor:
            for job in killed:
                (ready,) = until(lambda: supervisor.events("supervisor.ready"))
                took.append(seconds_until_started_again(db, job, moment(ready)))
                db.release(job)
                view = db.until_state(job, "done")
                assert (view.attempt, view.lost) == (1, 1)
            killed = db.enqueue("held")
            db.until_effect(*killed)
            supervisor.kill_all()
    figures.seconds("restart after a kill -9 of everything, from ready until its job runs again", took, most=1.0)


def moment(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
def test_another_machine_takes_over(tmp_path: Path, db: Database, figures: Figures) -> None:
    took: list[float] = []
    queues = [f"q{number}" for number in range(HOSTS)]
    with ExitStack() as stack:
        survivor = elsewhere(tmp_path / "survivor", db, queues)
        stack.callback(survivor.end)
        survivor.ready()

        def slowest() -> float:
            wave = seconds_until_taken_over(tmp_path, db, queues)
            took.extend(wave)
            return max(wave)

        for _ in range(WAVES):
            fastest(slowest, below=12)
        assert {death["proof"] for death in survivor.events("host.dead")} == {"renewals"}
    figures.seconds("kill -9 of a whole tree, until its job runs on another machine", took, most=12.0)


def elsewhere(directory: Path, db: Database, queues: list[str]) -> Supervisor:
    """A supervisor that nobody on this machine sees, nor it them."""
    supervisor = Supervisor(directory, db.url, STOKER_QUEUES=",".join(f"{queue}=1" for queue in queues))
    (directory / "run").mkdir(parents=True, exist_ok=True)
    return supervisor.start((*ELSEWHERE, HIDDEN, "sh", sys.executable, "-m", "supervisor"))


def seconds_until_taken_over(directory: Path, db: Database, queues: list[str]) -> list[float]:
    """A host per queue is killed as a whole; the one that survives has to take its job."""
    blockers = [db.enqueue("held", queue=queue)[0] for queue in queues]
    for job in blockers:
        db.until_effect(job)
    with ExitStack() as stack:
        hosts = []
        for queue in queues:
            hosts.append(elsewhere(directory / queue, db, [queue]))
            stack.callback(hosts[-1].end)
        for host in hosts:
            host.ready()
        jobs = [db.enqueue("held", queue=queue)[0] for queue in queues]
        for job in jobs:
            db.until_effect(job)
        db.release(*blockers)
        db.until_all_done(blockers)
        killed = []
        for host in hosts:
            killed.append(time.time())
            host.kill_all()
        took = [seconds_until_started_again(db, job, at) for job, at in zip(jobs, killed, strict=True)]
        assert {db.job(job).lost for job in jobs} == {1}
        db.release(*jobs)
        db.until_all_done(jobs)
    return took
