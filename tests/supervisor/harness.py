"""Starts a real supervisor over fake children and sees to it that nothing of it is left."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import IO, Any

from tests.support import HANGS_S, SOON_S, until, whole_lines

HERE = Path(__file__).parent


class Running:
    """One supervisor process: its log, the facts its fakes noted, and whoever of it is alive."""

    def __init__(
        self,
        directory: Path,
        *,
        env: dict[str, str] | None = None,
        toml: str = "",
        broken: bool = False,
        terminal: int | None = None,
        **overrides: Any,
    ) -> None:
        self.directory = directory
        self._facts, self._log = directory / "facts", directory / "log"
        settings = {"health": "off", "grace": "60s", "runtime_dir": str(directory / "run"), **overrides}
        settings["queues"] = settings.get("queues", ["good=1"])
        (directory / "stoker.toml").write_text(toml)
        if broken:
            (directory / "broken").touch()
        self._terminal = terminal
        with self._log.open("wb") as log:
            self.process = self._start(settings, env or {}, log)

    def _start(self, settings: dict[str, Any], env: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
        return subprocess.Popen(
            [sys.executable, "-W", "error", str(HERE / "fake_supervisor.py")],
            env={
                **clean,
                "PYTHONPATH": str(HERE.parent.parent),
                "FAKE_FACTS": str(self._facts),
                "STOKER_RUN_OVERRIDES": json.dumps(settings),
                **env,
            },
            cwd=self.directory,
            stderr=log,
            start_new_session=True,
            preexec_fn=None if self._terminal is None else partial(_take_terminal, self._terminal),
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def facts(self, what: str = "", **wanted: Any) -> list[dict[str, Any]]:
        """What the fakes noted."""
        lines = whole_lines(self._facts) if self._facts.exists() else []
        return _matching([json.loads(line) for line in lines], "what", what, wanted)

    def events(self, name: str = "", **wanted: Any) -> list[dict[str, Any]]:
        """What the supervisor logged."""
        lines = [line for line in whole_lines(self._log) if line.startswith("{")]
        return _matching([json.loads(line) for line in lines], "event", name, wanted)

    def wait_for(self, name: str, *, count: int = 1, within: float = HANGS_S, **wanted: Any) -> list[dict[str, Any]]:
        """Wait until the supervisor logged this."""

        def seen() -> list[dict[str, Any]]:
            found = self.events(name, **wanted)
            assert self.process.poll() is None or len(found) >= count, f"it ended\n{self.log()}"
            return found if len(found) >= count else []

        return until(seen, within=within)

    def ready(self) -> "Running":
        """Wait until everything is ready."""
        self.wait_for("supervisor.ready")
        return self

    def log(self) -> str:
        return self._log.read_text()

    def signal(self, number: signal.Signals) -> float:
        """Send a signal and return the time."""
        self.process.send_signal(number)
        return time.monotonic()

    def exit(self, within: float = HANGS_S) -> int:
        """Wait for the end; nobody may be left soon after."""
        code = self.process.wait(within)
        until(lambda: not self.alive(), within=SOON_S)
        return code

    def alive(self) -> list[int]:
        """Every process of this supervisor, adopted or not, except zombies."""
        mark = f"FAKE_FACTS={self._facts}".encode()
        return [pid for pid in _pids() if mark in _read(pid, "environ").split(b"\0") and not is_zombie(pid)]

    def url(self) -> str:
        return str(self.wait_for("health.listening")[0]["url"])

    def get(self, path: str) -> tuple[int, Any]:
        """One request to the health server: status and body; (0, None) when nobody listens."""
        try:
            with urllib.request.urlopen(self.url() + path, timeout=5) as answer:
                return answer.status, _body(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _body(error.read())
        except OSError:
            return 0, None

    def end(self) -> None:
        """TERM, wait, KILL, wait."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


def _take_terminal(fd: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def is_zombie(pid: int) -> bool:
    """True when it has ended and nobody has reaped it, or it is gone."""
    return _read(pid, "stat").rpartition(b") ")[2][:1] in (b"Z", b"")


def descriptors(pid: int) -> list[str]:
    """What the descriptors of a process point to."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return sorted(found)


def _matching(rows: list[dict[str, Any]], key: str, name: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [row for row in rows if not name or row[key] == name]
    return [row for row in rows if all(row.get(field) == value for field, value in wanted.items())]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _body(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()
