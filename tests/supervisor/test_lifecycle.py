"""Start → stop → start in one process, and what the entry point takes from its environment."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor import cli
from supervisor.host_lock import HostLock
from tests.supervisor.harness import HERE, Running, descriptors
from tests.support import until

Start = Callable[..., Running]

TWICE = """
import sys, threading, time
sys.path.insert(0, {tests!r})
from fake_supervisor import SERVER
from stoker import logs, settings
from stoker.errors import Draining
from supervisor.loop import Supervisor

logs.configure("json", "warning")
flags = {{"health": "off", "queues": ["good=1"], "runtime_dir": {run!r}}}
house = Supervisor(settings.load(flags), server_command=SERVER)
house.stop()
refused = []

def stop_soon(count):
    while len([line for line in open({facts!r}) if '"boot"' in line]) < count:
        time.sleep(0.01)
    try:
        house.run()
    except Draining:
        refused.append(True)
    house.stop()
    house.stop()

open({facts!r}, "a").close()
for count in (2, 4):
    helper = threading.Thread(target=stop_soon, args=(count,))
    helper.start()
    print(house.run())
    helper.join()
house.stop()
print(refused)
"""


def test_it_can_be_started_again_after_it_stopped(tmp_path: Path) -> None:
    facts = str(tmp_path / "facts")
    script = TWICE.format(tests=str(HERE), facts=facts, run=str(tmp_path / "run"))
    env = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), "FAKE_FACTS": facts}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n") == ["0", "0", "[True, True]", ""], done.stderr
    lines = [json.loads(line) for line in Path(facts).read_text().splitlines()]
    stops = [line["facts"] for line in lines if line["what"] == "StopAccepting"]
    assert stops == ["StopAccepting(reason='stop', signal=False)"] * 4


def test_flags_come_by_environment_and_stay_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cli.OVERRIDES, '{"grace": "3s"}')
    assert cli.take_overrides() == {"grace": "3s"}
    assert cli.OVERRIDES not in os.environ
    assert cli.take_overrides() == {}


def test_the_embedded_servers_lock_is_not_inherited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(fd, True)
    monkeypatch.setenv(cli.EMBEDDED_LOCK, str(fd))
    assert cli.take_embedded_lock() == fd
    assert not os.get_inheritable(fd)
    assert cli.EMBEDDED_LOCK not in os.environ
    assert cli.take_embedded_lock() is None
    os.close(fd)


def test_wrong_settings_are_one_message_and_78(tmp_path: Path) -> None:
    (tmp_path / "stoker.toml").write_text('grace = "soon"\nhealht = "x"\n')
    command = [sys.executable, "-m", "supervisor"]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "grace" in done.stderr
    assert "healht" in done.stderr
    assert "Traceback" not in done.stderr


def test_too_many_processes_are_refused(start: Start) -> None:
    running = start(queues=["good=200", "other=100"])
    assert running.exit() == 78
    assert "too many for one supervisor" in running.log()


def test_every_process_of_a_boot_holds_the_host_lock(start: Start) -> None:
    running = start(queues=["good=1"]).ready()
    path = next((running.directory / "run").glob("host-*.lock"))
    assert path.stat().st_mode & 0o777 == 0o600
    for pid in [running.pid, running.events("app.imported")[0]["pid"], *(f["pid"] for f in running.facts("boot"))]:
        assert str(path) in descriptors(pid)
    with path.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    running.process.kill()
    running.process.wait()
    until(lambda: not running.alive())
    # A process that dies is no longer to be seen a moment before its descriptors are closed.
    until(lambda: is_free(path))


def is_free(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_old_lock_files_are_swept_and_young_or_held_ones_stay(tmp_path: Path) -> None:
    old, young, held = (tmp_path / f"host-{name}.lock" for name in ("old", "young", "held"))
    for path in (old, young, held):
        path.touch()
    for path in (old, held):
        os.utime(path, (0, 0))
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lock = HostLock(tmp_path)
        assert not old.exists()
        assert young.exists()
        assert held.exists()
    lock.close(lease_ended=True)
    assert not lock.path.exists()


def test_a_lock_whose_lease_was_not_ended_stays_as_a_proof(tmp_path: Path) -> None:
    lock = HostLock(tmp_path)
    lock.close(lease_ended=False)
    with lock.path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
