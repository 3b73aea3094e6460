"""Memory: a job that eats too much is killed, blamed and ends; what the kernel killed is told as such."""

import json
import sys
from pathlib import Path

from tests.memory_group import memory_group
from tests.processes import Supervisor, running
from tests.side_table import Database
from tests.support import scaled, until

MIB = 1 << 20
LIMIT = 200 * MIB
APP = {"STOKER_APP": "tests.memory_jobs"}
CONTAINER = 500 * MIB
TOML = f"[queues.default]\nprocesses = 2\nkill_rss = {LIMIT}\n"


def test_a_job_that_eats_memory_is_killed_and_dead_and_its_neighbour_is_not(tmp_path: Path, db: Database) -> None:
    (tmp_path / "stoker.toml").write_text(TOML)
    with running(tmp_path, db.url, {**APP, "STOKER_QUEUES": "default"}) as supervisor:
        (neighbour,) = db.enqueue("held")
        db.until_effect(neighbour)
        (eater,) = db.enqueue("eats", max_attempts=10)
        view = db.until_state(eater, "dead")
        assert (view.crashes, db.effects("start")[eater]) == (3, 3)
        for attempt in view.attempts:
            error = attempt["error"]
            assert (error["type"], error["code"], error["how"]) == (
                "MemoryLimitExceeded",
                "STOKER_WORKER_CRASHED",
                "memory",
            )
            assert error["peak_rss_bytes"] > error["rss_limit_bytes"] == LIMIT
            assert "above the limit of 200 MiB (kill_rss)" in error["message"]
            assert f"job {eater} (eats)" in error["message"]
        assert all(killed["how"] == "memory" for killed in supervisor.events("child.killed"))
        db.release(neighbour)
        assert db.until_state(neighbour, "done").attempt == 1
        supervisor.ready()
        assert 'stoker_child_restarts_total{reason="memory",role="worker"} 3.0' in supervisor.health("/metrics")[1]


def test_a_run_that_fails_in_a_living_worker_tells_its_peak(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, APP):
        go = tmp_path / "go"
        payload = json.dumps({"bytes": 64 * MIB, "until": str(go)})
        (late,) = db.enqueue("fails_late", payload, max_attempts=1)
        db.until_effect(late)
        # The sample is taken once a second by a thread that may have to wait for a processor.
        until(lambda: db.one("select clock_timestamp() - max(at) > interval '4 s' from effects"))
        go.touch()
        assert db.until_state(late, "dead").error["peak_rss_bytes"] > 64 * MIB


def test_the_kernels_own_kill(tmp_path: Path, db: Database) -> None:
    with memory_group(CONTAINER) as group:
        supervisor = Supervisor(tmp_path, db.url, **APP, STOKER_QUEUES="default=2")
        join = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
        try:
            supervisor.start(("sh", "-c", join, "sh", sys.executable, "-m", "supervisor")).ready()
            (neighbour,) = db.enqueue("held")
            db.until_effect(neighbour)
            kills = scaled(1, 3)
            (eater,) = db.enqueue("eats", max_attempts=kills)
            view = db.until_state(eater, "dead")
            assert (view.crashes, db.effects("start")[eater]) == (kills, kills)
            errors = [attempt["error"] for attempt in view.attempts]
            assert [(error["type"], error["oom"], error["signal_name"]) for error in errors] == [
                ("OutOfMemory", True, "SIGKILL")
            ] * kills
            assert all(error["peak_rss_bytes"] > CONTAINER / 2 for error in errors)
            db.release(neighbour)
            assert db.until_state(neighbour, "done").attempt == 1
            supervisor.ready()
            assert supervisor.stop()[0] == 0
        except BaseException:
            print(supervisor.log)
            raise
        finally:
            supervisor.end()


def test_a_kill_of_the_kernel_is_told_as_one_and_another_one_is_not(tmp_path: Path, db: Database) -> None:
    events = tmp_path / "memory.events"
    events.write_text("oom 0\noom_kill 4\n")
    supervisor = Supervisor(tmp_path, db.url, **APP, TEST_MEMORY_EVENTS=str(events))
    try:
        supervisor.start((sys.executable, str(Path(__file__).with_name("oom_supervisor.py")))).ready()
        (killed,) = db.enqueue("is_killed", '{"by_kernel": false}', max_attempts=1)
        error = db.until_state(killed, "dead").error
        assert (error["type"], error["signal"]) == ("WorkerCrashed", 9)
        assert "oom" not in error
        (taken,) = db.enqueue("is_killed", '{"by_kernel": true}', max_attempts=1)
        error = db.until_state(taken, "dead").error
        assert (error["type"], error["code"], error["oom"]) == ("OutOfMemory", "STOKER_WORKER_CRASHED", True)
        assert "taken by the kernel's OOM killer" in error["message"]
        assert [death.get("oom") for death in supervisor.events("child.exited") if death.get("signal")] == [None, True]
        assert supervisor.stop()[0] == 0
    except BaseException:
        print(supervisor.log)
        raise
    finally:
        supervisor.end()
