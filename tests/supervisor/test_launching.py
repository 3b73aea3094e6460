"""Fork servers as they are started: the first one ahead of the supervisor, and none that outlives a refusal."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor import launching
from supervisor.launching import Launched, launch
from tests.processes import ROOT
from tests.support import until

TALKER = """
import os, socket, sys
with socket.socket(fileno=int(sys.argv[1])) as end:
    end.send(" ".join(sorted(os.environ)).encode())
    end.recv(1)
"""


@contextmanager
def talker() -> Iterator[tuple[Launched, set[str]]]:
    """Something that says what is in its environment, then waits for the other end to close."""
    launched = launch((sys.executable, "-c", TALKER))
    try:
        yield launched, set(launched._sock.recv(100_000).decode().split())
    finally:
        launched._sock.close()
        launched._process.wait()


def test_what_is_for_the_supervisor_alone_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    private = {launching.OVERRIDES, launching.EMBEDDED_LOCK, *launching.SERVICE_MANAGER}
    for name in private:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("SHOP_COLOUR", "green")
    with talker() as (_, environ):
        assert "SHOP_COLOUR" in environ
        assert not environ & private
        assert private <= set(os.environ), "the supervisor has yet to read them"


def test_one_that_nobody_took_can_be_ended_and_one_that_was_taken_cannot() -> None:
    with talker() as (launched, _):
        launched.end()
        assert launched._process.returncode is not None
    with talker() as (launched, _):
        launched.take()
        launched.end()
        assert launched._process.poll() is None


def test_it_ends_by_itself_when_the_supervisor_is_gone() -> None:
    launched = launch()
    process, sock = launched.take()
    sock.close()
    assert process.wait(20) == 0


def test_a_refused_start_leaves_no_fork_server_behind(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "STOKER_GRACE": "soon", "TEST_MARK": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "supervisor"], cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 78, done.stderr
    assert not marked(str(tmp_path))


def test_closed_standard_descriptors_are_filled_before_anything_is_started(tmp_path: Path) -> None:
    script = f'exec 0<&- 1>&-; exec "{sys.executable}" -m supervisor'
    env = {**os.environ, "PYTHONPATH": str(ROOT), "STOKER_GRACE": "soon", "TEST_MARK": str(tmp_path)}
    assert subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=env, check=False).returncode == 78
    until(lambda: not marked(str(tmp_path)))


@pytest.mark.parametrize("nohup", [False, True])
def test_a_hang_up_before_the_loop_is_survived_and_nohup_is_remembered(nohup: bool) -> None:
    script = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN if {0} else signal.SIG_DFL);"
        " import supervisor.__main__; os.kill(os.getpid(), signal.SIGHUP);"
        " print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    )
    command = [sys.executable, "-c", script.format(nohup)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(nohup)


def marked(mark: str) -> list[int]:
    """Processes with that mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"TEST_MARK={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
