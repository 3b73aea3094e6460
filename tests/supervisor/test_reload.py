"""SIGHUP: fresh code, one worker after the other, and the old generation if the fresh one cannot be loaded."""

import os
import pty
import signal
from collections.abc import Callable
from pathlib import Path

from tests.supervisor.harness import Running
from tests.support import until

Start = Callable[..., Running]
HUP = signal.SIGHUP


def test_workers_and_keeper_are_replaced_one_by_one(start: Start) -> None:
    running = start(queues=["good=2"], health="127.0.0.1:0").ready()
    running.signal(HUP)
    running.wait_for("reload.finished")
    boots = running.facts("boot", generation=2)
    assert [boot["role"] for boot in boots] == ["worker", "worker", "keeper"]
    retirements = [fact["at"] for fact in running.facts("Recycle", role="worker")]
    assert boots[0]["at"] < retirements[0] < boots[1]["at"] < retirements[1]
    assert not [entry for entry in running.events("readiness.lost") if "worker" in str(entry["reasons"])]
    old_server = running.events("app.imported")[0]["pid"]
    until(lambda: not Path(f"/proc/{old_server}").exists())
    assert running.get("/status")[1]["generation"] == 2


def test_an_application_that_does_not_import_leaves_the_old_generation(start: Start) -> None:
    running = start(queues=["good=1"]).ready()
    (running.directory / "broken").touch()
    running.signal(HUP)
    failed = running.wait_for("reload.failed")[0]
    assert failed["error"] == "the fake does not import"
    (running.directory / "broken").unlink()
    running.signal(HUP)
    running.wait_for("reload.finished")
    assert {boot["generation"] for boot in running.facts("boot")} == {1, 2}


ONE_QUEUE = """
[queues.good]
processes = 1
concurrency = 3
"""
TWO_QUEUES = f"""{ONE_QUEUE}
[queues.busy]
processes = 2
"""


def test_settings_are_read_again(start: Start) -> None:
    running = start(queues=[], health="127.0.0.1:0", toml="[queues.good]\nprocesses = 1\n").ready()
    file = running.directory / "stoker.toml"
    file.write_text(TWO_QUEUES)
    running.signal(HUP)
    running.wait_for("reload.finished")
    seats = {seat["name"] for seat in running.get("/status")[1]["seats"]}
    assert seats == {"keeper", "worker good/0", "worker busy/0", "worker busy/1"}
    file.write_text(ONE_QUEUE)
    running.signal(HUP)
    running.wait_for("reload.finished", count=2)
    assert list(running.get("/readyz")[1]["queues"]) == ["good"]
    file.write_text("[queues.good]\nprocesses = 'many'\n")
    running.signal(HUP)
    failed = running.wait_for("reload.failed")[0]
    assert "queues.good.processes" in failed["error"]
    until(lambda: running.get("/readyz")[0] == 200)


def test_the_first_application_must_import(start: Start) -> None:
    running = start(broken=True)
    assert running.exit() == 78
    assert running.events("supervisor.gives_up")[0]["reason"] == "the fake does not import"


def test_a_fork_server_that_keeps_dying_is_given_up(start: Start) -> None:
    running = start(env={"FAKE_IMPORT": "crash"}, max_boot_failures=3)
    assert running.exit() == 70
    assert len(running.events("fork_server.exited")) == 3


def test_an_import_that_hangs_is_ended(start: Start) -> None:
    running = start(env={"FAKE_IMPORT_S": "60"}, boot_deadline="1s", max_boot_failures=1)
    assert running.exit() == 70
    assert running.events("app.import_hangs")


def test_a_reload_during_a_drain_is_refused(start: Start) -> None:
    running = start(queues=["stubborn=1"]).ready()
    running.signal(signal.SIGTERM)
    running.wait_for("drain.started")
    running.signal(HUP)
    running.wait_for("reload.refused")
    os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
    assert running.exit() == 0


def test_a_terminal_that_closes_is_a_termination(start: Start) -> None:
    master, slave = pty.openpty()
    running = start(terminal=slave).ready()
    os.close(slave)
    os.close(master)
    assert running.exit() == 0
    assert running.events("drain.started", reason="the terminal closed")
