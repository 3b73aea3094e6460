"""The real supervisor, as anybody would start it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.beacon import Beacon
from bench.errors import BenchFailed
from bench.processes import kill, spawn, tree

READY_WITHIN_S: Final = 60.0
LOG_SHOWN: Final = 4000


class Supervisor:
    """`stoker run`. Leaving the block drains it; what is left then is killed. `env` is for the application."""

    def __init__(
        self,
        directory: Path,
        database_url: str,
        *,
        queues: str,
        settings: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._log = directory / "supervisor.log"
        self._news = Beacon()
        environment = {
            **(env or {}),
            "STOKER_DATABASE_URL": database_url,
            "STOKER_APP": "bench.app",
            "STOKER_QUEUES": queues,
            "STOKER_HEALTH": "127.0.0.1:0",
            "STOKER_LOG_FORMAT": "json",
            "STOKER_RUNTIME_DIR": str(directory / "run"),
            "NOTIFY_SOCKET": f"@{self._news.name}",
            **{f"STOKER_{name.upper()}": str(value) for name, value in (settings or {}).items()},
        }
        self.started_at = time.monotonic_ns()
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "stoker", "run"]
            self._process = spawn(
                command,
                cwd=directory,
                env=environment,
                dies_by=signal.SIGTERM,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """The root of the tree."""
        return self._process.pid

    def ready(self) -> Self:
        """Wait until every worker is ready, as the service manager would hear it."""
        deadline = time.monotonic() + READY_WITHIN_S
        while b"READY=1" not in self._hear():
            if time.monotonic() > deadline:
                raise self._failed(f"was not ready within {READY_WITHIN_S:g} s")
        return self

    def _hear(self) -> list[bytes]:
        while self._process.poll() is None:
            try:
                return self._news.receive(0.5).splitlines()
            except BenchFailed:
                continue
        raise self._failed(f"ended with {self._process.returncode}")

    def is_ready(self) -> bool:
        """Whether /readyz says so."""
        connection = http.client.HTTPConnection(*self._address(), timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def _address(self) -> tuple[str, int]:
        for line in self._log.read_text().splitlines():
            if '"event":"health.listening"' in line:
                host, _, port = json.loads(line)["url"].removeprefix("http://").rpartition(":")
                return host, int(port)
        raise self._failed("has no health server")

    def stop(self) -> float:
        """SIGTERM; returns the seconds until it is gone. Raises BenchFailed unless it ends with 0."""
        began = time.monotonic_ns()
        self._process.terminate()
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            raise self._failed("did not drain") from None
        took = (time.monotonic_ns() - began) / 1e9
        if code != 0:
            raise self._failed(f"ended with {code}")
        return took

    def _failed(self, what: str) -> BenchFailed:
        return BenchFailed(f"the supervisor {what}\n{self._log.read_text(errors='replace')[-LOG_SHOWN:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if self._process.poll() is None:
                self._end(checked=error is None)
        finally:
            self._news.close()

    def _end(self, *, checked: bool) -> None:
        family = tree(self.pid)
        try:
            self.stop()
        except BenchFailed:
            # An interrupt may come before it has signal handlers; what went wrong first is what counts.
            if checked:
                raise
        finally:
            kill(family)
            self._process.wait()
