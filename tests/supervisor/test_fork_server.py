"""Forking: whose child a child is, what it holds, and who survives whom."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.supervisor.harness import Running, descriptors, is_zombie
from tests.support import SOON_S, fastest, scaled, until

Start = Callable[..., Running]


def children(running: Running) -> list[int]:
    return [fact["pid"] for fact in running.facts("boot")]


def server(running: Running) -> int:
    return int(running.events("app.imported")[-1]["pid"])


def test_a_child_is_the_supervisors_own_and_a_process_group(start: Start) -> None:
    running = start(queues=["good=2"]).ready()
    boots = running.facts("boot")
    assert {boot["ppid"] for boot in boots} == {running.pid}
    # They boot side by side.
    assert sorted(boot["title"] for boot in boots) == [
        "stoker: keeper",
        "stoker: worker good/0",
        "stoker: worker good/1",
    ]
    assert all(os.getpgid(pid) == pid for pid in children(running))
    assert os.getpgid(server(running)) == server(running)


def test_a_child_holds_only_its_own_descriptors(start: Start) -> None:
    running = start(queues=["good=3"]).ready()
    for boot in running.facts("boot", role="worker"):
        kinds = sorted(target.split(":")[0] for target in descriptors(boot["pid"]))
        # Standard streams, the board (mapping and descriptor), the host lock, its eventfd, its pipe. Nothing else.
        expected = {"socket": 1, "anon_inode": 1}
        assert {kind: kinds.count(kind) for kind in expected} == expected, descriptors(boot["pid"])
        assert sum("stoker-board" in target for target in descriptors(boot["pid"])) <= 2
        assert sum("host-" in target for target in descriptors(boot["pid"])) == 1
        assert not any("pipe" in kind for kind in kinds), descriptors(boot["pid"])
    keeper = descriptors(running.facts("boot", role="keeper")[0]["pid"])
    assert sum("eventfd" in target for target in keeper) == 1 + 4
    assert running.facts("boot") and not [target for target in keeper if "pidfd" in target]


def test_a_kill_is_reported_with_its_signal_and_the_seat_is_filled_again(start: Start) -> None:
    running = start(queues=["good=1"]).ready()
    victim = running.facts("boot", role="worker")[0]["pid"]
    os.kill(victim, signal.SIGKILL)
    exited = running.wait_for("child.exited", pid=victim)[0]
    assert exited["signal"] == signal.SIGKILL
    running.wait_for("worker.ready", count=2)
    assert is_zombie(victim)
    assert not Path(f"/proc/{victim}").exists()
    until(lambda: running.facts("ChildDied", role="keeper"))


def test_descriptors_do_not_grow_with_respawns(start: Start) -> None:
    running = start(queues=["good=1"]).ready()
    both = running.pid, server(running)
    before = [len(descriptors(pid)) for pid in both]
    for count in range(2, scaled(5, 50)):
        os.kill(running.facts("boot", role="worker")[-1]["pid"], signal.SIGKILL)
        running.wait_for("worker.ready", count=count)
    until(lambda: all(len(descriptors(pid)) <= most for pid, most in zip(both, before, strict=True)))


def test_signals_to_the_fork_server_do_not_end_it(start: Start) -> None:
    running = start().ready()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.killpg(server(running), number)
    os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
    running.wait_for("worker.ready", count=2)
    assert len(running.events("app.imported")) == 1


def test_a_killed_fork_server_is_replaced_and_its_children_work_on(start: Start) -> None:
    running = start().ready()
    before = children(running)
    os.kill(server(running), signal.SIGKILL)
    running.wait_for("app.imported", count=2)
    assert all(not is_zombie(pid) for pid in before)
    os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
    running.wait_for("worker.ready", count=2)


def test_nobody_survives_the_supervisor_by_more_than_five_seconds(start: Start) -> None:
    def survived() -> float:
        running = start(queues=["good=1", "deaf=1", "daemon=1"]).ready()
        until(lambda: running.facts("daemon"))
        began = time.monotonic()
        os.kill(running.pid, signal.SIGKILL)
        running.process.wait()
        until(lambda: not running.alive())
        took = time.monotonic() - began
        assert took > 1, "the deaf one had its 3 s"
        return took

    fastest(survived, below=5)


def test_children_of_a_killed_fork_server_do_not_survive_the_supervisor_either(start: Start) -> None:
    running = start(queues=["deaf=1"]).ready()
    os.kill(server(running), signal.SIGKILL)
    running.wait_for("app.imported", count=2)
    os.kill(running.pid, signal.SIGKILL)
    running.process.wait()
    until(lambda: not running.alive(), within=SOON_S)


def test_a_supervisor_killed_during_start_leaves_nobody(start: Start) -> None:
    for trial in range(scaled(4, 100)):
        running = start(queues=["good=3"], env={"FAKE_IMPORT_S": "0.1"})
        time.sleep(0.15 + 0.1 * trial % 0.7)
        os.kill(running.pid, signal.SIGKILL)
        running.process.wait()
        until(lambda running=running: not running.alive(), within=SOON_S)


def test_what_a_worker_left_behind_goes_with_it(start: Start) -> None:
    running = start(queues=["daemon=1"]).ready()
    daemon = until(lambda: running.facts("daemon"))[0]["pid"]
    os.kill(running.facts("boot", queue="daemon")[0]["pid"], signal.SIGKILL)
    until(lambda: is_zombie(daemon))
    until(lambda: not Path(f"/proc/{daemon}").exists())
    running.wait_for("child.exited")
    assert len(running.events("child.exited")) == 1, "an adopted stranger is reaped quietly"
