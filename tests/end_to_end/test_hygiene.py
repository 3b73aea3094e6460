"""What is left after any ending: nothing. What a job may do to its surroundings: nothing."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.processes import Supervisor, running, zombies_below
from tests.side_table import Database
from tests.supervisor.harness import descriptors
from tests.support import scaled, until


def test_children_hold_only_their_own_descriptors(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default=4"}) as supervisor:
        worker = supervisor.worker_pid()
        links = descriptors(worker)
        ports = {connection.laddr.port for connection in psutil.Process(worker).net_connections("tcp")}
        assert not any(f":{port}/" in supervisor.url + "/" for port in ports)
        # Control, board, host lock, eventfds, wake-up pair, and the connections of the queue and the application.
        assert len(links) < 30, links
        # The mapping holds a duplicate of the board's descriptor.
        assert sum("stoker-board" in link for link in links) == 2


def test_killed_workers_leave_no_descriptor_behind(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {"STOKER_MAX_BOOT_FAILURES": "1000"}) as supervisor:
        os.kill(supervisor.worker_pid(), signal.SIGKILL)
        until(lambda: len(supervisor.events("worker.ready")) == 2)
        before = _descriptors(supervisor)
        for round_ in range(scaled(5, 200)):
            os.kill(supervisor.worker_pid(), signal.SIGKILL)
            until(lambda: len(supervisor.events("worker.ready")) == 3 + round_)  # noqa: B023
        until(lambda: all(number <= before[name] for name, number in _descriptors(supervisor).items()))


def _descriptors(supervisor: Supervisor) -> dict[str, int]:
    named = {"supervisor": supervisor.pid, "fork server": supervisor.worker_pid("stoker: fork server")}
    return {name: len(list(Path(f"/proc/{pid}/fd").iterdir())) for name, pid in named.items()}


def test_nothing_is_left_on_the_machine(tmp_path: Path, db: Database) -> None:
    before = _shared_memory()
    with running(tmp_path, db.url) as supervisor:
        assert supervisor.stop()[0] == 0
    # Other programs of this machine may have some for a moment.
    until(lambda: _shared_memory() <= before)
    assert list((tmp_path / "run").iterdir()) == []


def _shared_memory() -> set[Path]:
    return {path for path in Path("/dev/shm").iterdir() if not path.name.startswith("PostgreSQL")}


def test_warnings_are_errors(tmp_path: Path, db: Database) -> None:
    """Above all the one about forking with threads."""
    supervisor = Supervisor(tmp_path, db.url, PYTHONWARNINGS="error", STOKER_QUEUES="default=1,io=1x4")
    try:
        supervisor.start((sys.executable, "-W", "error", "-m", "supervisor")).ready()
        jobs = [*db.enqueue("answer", times=5), *db.enqueue("drowsy", '{"s": 0.1}', queue="io", times=5)]
        db.until_all_done(jobs)
        os.kill(supervisor.worker_pid(), signal.SIGKILL)
        until(lambda: len(supervisor.events("worker.ready")) == 3)
        assert supervisor.stop()[0] == 0
        assert "Warning" not in supervisor.log
    finally:
        supervisor.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
def test_as_process_1_it_reaps_and_leaves_nothing(tmp_path: Path, db: Database) -> None:
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    before = _shared_memory()
    supervisor = Supervisor(tmp_path, db.url).start((*namespace, sys.executable, "-m", "supervisor"))
    try:
        supervisor.ready()
        (first,) = psutil.Process(supervisor.pid).children()
        jobs = db.enqueue("forks_a_daemon", times=5)
        db.until_all_done(jobs)
        assert len(supervisor.processes("sleep 60")) == 5
        held = len(descriptors(first.pid))
        os.kill(supervisor.worker_pid(), signal.SIGKILL)
        until(lambda: len(supervisor.events("worker.ready")) == 2)
        until(lambda: not supervisor.processes("sleep 60"))
        until(lambda: not zombies_below(first.pid))
        until(lambda: len(descriptors(first.pid)) <= held)
        first.terminate()
        assert supervisor.wait() == 0
        until(lambda: not supervisor.processes())
        until(lambda: _shared_memory() <= before)
        assert list((tmp_path / "run").iterdir()) == []
        assert "Traceback" not in supervisor.log
    except BaseException:
        print(supervisor.log)
        raise
    finally:
        supervisor.end()


def test_standard_output_never_stops_a_job(tmp_path: Path, db: Database) -> None:
    reader, writer = os.pipe()
    supervisor = Supervisor(tmp_path, db.url)
    try:
        supervisor.start(stdout=writer).ready()
        os.close(writer)
        # Nobody reads.
        jobs = db.enqueue("prints_garbage", '{"bytes": 1000000}', times=2)
        db.until_all_done(jobs)
        os.close(reader)
        jobs = db.enqueue("prints_garbage", times=2)
        db.until_all_done(jobs)
        assert supervisor.stop()[0] == 0
    finally:
        supervisor.end()


def test_every_standard_descriptor_closed(tmp_path: Path, db: Database) -> None:
    supervisor = Supervisor(tmp_path, db.url)
    try:
        supervisor.start(("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "supervisor"))
        jobs = db.enqueue("prints_garbage", times=2)
        db.until_all_done(jobs)
        assert supervisor.stop()[0] == 0
    finally:
        supervisor.end()


def test_a_worker_without_standard_streams_ends_like_any_other(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url) as supervisor:
        (job,) = db.enqueue("takes_standard_output_away")
        db.until_all_done([job])
        pid = supervisor.worker_pid()
        os.kill(pid, signal.SIGTERM)
        (exited,) = until(lambda: [one for one in supervisor.events("child.exited") if one["pid"] == pid])
        assert exited["code"] == 0
        assert "Traceback" not in supervisor.log


def test_a_job_enqueues_into_its_own_database(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url):
        (job,) = db.enqueue("enqueues_more", '{"n": 41}')
        db.until_all_done([job])
        until(lambda: db.one("select result->>'answer' from stoker.finished where name = 'answer'") == "42")


def test_a_poison_payload_stops_nobody(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url):
        (bad,) = db.enqueue("plain", '{"unexpected": [1, 2]}', max_attempts=1)
        (exits,) = db.enqueue("exits", max_attempts=1)
        (nul,) = db.enqueue("raises", max_attempts=1)
        good = db.enqueue("answer", times=10)
        db.until_all_done(good)
        assert {db.until_state(job, "dead").state for job in (bad, exits, nul)} == {"dead"}
        assert "\0" not in str(db.job(nul).error)
