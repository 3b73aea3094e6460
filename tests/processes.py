"""The real supervisor as a subprocess: its log kept, its health asked, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.support import HANGS_S, until, whole_lines

ROOT = Path(__file__).resolve().parents[1]


class Supervisor:
    """`python -m supervisor`, configured through its environment."""

    def __init__(self, directory: Path, database_url: str, **env: str) -> None:
        self.mark = uuid.uuid4().hex
        self.log_path = directory / f"supervisor-{self.mark[:8]}.log"
        self.database_url = database_url
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STOKER_")},
            "STOKER_DATABASE_URL": database_url,
            "STOKER_APP": "tests.sabotage",
            "STOKER_QUEUES": "default=1",
            "STOKER_HEALTH": "127.0.0.1:0",
            "STOKER_LOG_FORMAT": "json",
            "STOKER_RUNTIME_DIR": str(directory / "run"),
            "PYTHONPATH": str(ROOT),
            "TEST_MARK": self.mark,
            # setproctitle would use the room of the environment, where the mark is.
            "SPT_NOENV": "1",
            **env,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, command: tuple[str, ...] = (sys.executable, "-m", "supervisor"), **popen: Any) -> Supervisor:
        """Start it in a process group of its own."""
        with self.log_path.open("ab") as log:
            options = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL, "start_new_session": True, **popen}
            self.process = subprocess.Popen(command, env=self.env, cwd=self.log_path.parent, **options)
        return self

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        lines = (line for line in whole_lines(self.log_path) if f'"event":"{name}"' in line)
        return [json.loads(line) for line in lines]

    def ready(self, within: float = HANGS_S) -> Supervisor:
        """Wait for /readyz to be 200."""
        until(lambda: self.alive() and self.health("/readyz")[0] == 200, within=within)
        return self

    def ended(self) -> bool:
        assert self.process
        return self.process.poll() is not None

    def alive(self) -> bool:
        assert self.process
        assert self.process.poll() is None, f"the supervisor ended with {self.process.returncode}\n{self.log}"
        return True

    @property
    def url(self) -> str:
        return str(until(lambda: self.events("health.listening"))[0]["url"])

    def health(self, path: str, timeout: float = 5.0) -> tuple[int, str]:
        """Status (0 when refused) and body of one of the health server's pages."""
        if not (listening := self.events("health.listening")):
            return 0, ""
        try:
            with urllib.request.urlopen(str(listening[0]["url"]).rstrip("/") + path, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return 0, ""

    def readyz(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(until(lambda: self.health("/readyz")[1]))
        return body

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(until(lambda: self.health("/status")[1]))
        return body

    def send(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def wait(self, within: float = HANGS_S) -> int:
        """The exit code."""
        assert self.process
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within} s\n{self.log}") from None

    def stop(self, number: int = signal.SIGTERM, within: float = HANGS_S) -> tuple[int, float]:
        """Signal and wait; exit code and seconds."""
        started = time.monotonic()
        self.send(number)
        return self.wait(within), time.monotonic() - started

    def processes(self, title: str = "") -> list[psutil.Process]:
        """Every living process that was started for this supervisor, by its title."""
        return [process for process in _marked(self.mark) if title in _title(process)]

    def worker_pid(self, title: str = "stoker: worker default/0") -> int:
        return int(until(lambda: self.processes(title))[0].pid)

    def kill_all(self) -> None:
        """Everything at one moment: whoever sees another one's end first would have time to say so."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in self.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
        self.wait()

    def seconds_until_gone(self) -> float:
        """How long its processes are there still."""
        began = time.monotonic()
        until(lambda: not self.processes())
        return time.monotonic() - began

    def end(self) -> None:
        """Teardown: TERM, then KILL whatever is left."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if self.process:
            self.process.wait()


@contextlib.contextmanager
def running(directory: Path, database_url: str, env: Mapping[str, str] | None = None) -> Iterator[Supervisor]:
    """A supervisor that is ready; its log is printed when the test fails, and no process of it survives."""
    supervisor = Supervisor(directory, database_url, **(env or {}))
    try:
        yield supervisor.start().ready()
    except BaseException:
        print(supervisor.log)
        raise
    finally:
        supervisor.end()
    # What was killed takes a moment to be gone.
    until(lambda: not supervisor.processes())


def zombies_below(pid: int) -> list[int]:
    """Descendants of a process that have ended and that nobody has reaped."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        # It may be reaped between two looks.
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return found


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal: what ran before that was nothing of ours."""
    (mask,) = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


def _marked(mark: str) -> Iterator[psutil.Process]:
    # Tests look often, and psutil reads more of every process of the machine. A zombie has no environment.
    entry = f"TEST_MARK={mark}".encode()
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/environ", "rb", buffering=0) as environ:  # noqa: PTH123
                found = entry in environ.read().split(b"\0")
            if found:
                yield psutil.Process(int(name))
        except (OSError, psutil.NoSuchProcess):
            continue


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
