"""What the demo plays on: a PostgreSQL and a supervisor of its own, of which nothing is left afterwards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.request import urlopen

import psycopg

from examples.app import prepare
from stoker import embedded, session
from stoker.database import connect
from stoker.migrate import migrate

T = TypeVar("T")

RUN = [sys.executable, "-m", "stoker", "run", "--app", "examples.app", "--queue", "default=2", "--queue", "io=1x20"]


class DemoFailed(Exception):
    """Something did not happen that should have; the message says what."""


@dataclass(frozen=True)
class Stage:
    """A running supervisor, its database and its log."""

    supervisor: subprocess.Popen[bytes]
    conn: psycopg.Connection[Any]
    log: Path

    def one(self, query: str, *args: object) -> tuple[Any, ...]:
        """The first row of a query."""
        row = self.conn.execute(query, args).fetchone()
        assert row is not None
        return tuple(row)

    def health(self, page: str) -> dict[str, Any]:
        """What the supervisor says of itself; empty while it does not answer."""
        try:
            with urlopen(self.health_url() + page, timeout=5) as answer:
                return dict(json.load(answer))
        except (URLError, OSError):
            return {}

    def health_url(self) -> str:
        """Where the health server listens, as the supervisor's log tells."""
        said = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return next((str(line["url"]) for line in said if line["event"] == "health.listening"), "http://127.0.0.1:1")

    def until(self, fact: Callable[[], T], *, within: float, what: str) -> T:
        """Wait for a fact; DemoFailed after that many seconds, or when the supervisor has ended."""
        deadline = time.monotonic() + within
        while not (seen := fact()):
            if self.supervisor.poll() is not None:
                raise DemoFailed(f"the supervisor ended with {self.supervisor.returncode} before {what}")
            if time.monotonic() > deadline:
                raise DemoFailed(f"{what}: not within {within:g} s")
            time.sleep(0.02)
        return seen


@contextmanager
def stage() -> Iterator[Stage]:
    """Start everything in a temporary directory; end and remove everything, whatever happened."""
    # PostgreSQL runs as another user when root starts it, and must be able to enter.
    root = Path(tempfile.mkdtemp(prefix="stoker-demo-"))
    root.chmod(0o755)
    try:
        with _database(root / "postgres") as conn, _supervisor(root) as process:
            yield Stage(process, conn, root / "log")
    finally:
        embedded.wait_until_stopped(root / "postgres")
        shutil.rmtree(root)


@contextmanager
def _database(root: Path) -> Iterator[psycopg.Connection[Any]]:
    server = embedded.acquire(root)
    conn = connect(server.url, name="stoker: demo")
    session.configure(database_url=server.url)
    try:
        migrate(conn)
        prepare(conn)
        yield conn
    finally:
        session.current_session().own.close()
        conn.close()
        server.close()


@contextmanager
def _supervisor(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (root / "log").open("wb") as log:
        process = subprocess.Popen([*RUN, "--health", "127.0.0.1:0"], env=_environment(root), stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(root: Path) -> Mapping[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}
    return {**ours, "STOKER_PG_ROOT": str(root / "postgres"), "STOKER_LOG_FORMAT": "json"}
