"""Two supervisors on one PostgreSQL, each behind a proxy of its own, as two hosts would be."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, TypeVar

import psycopg

from stoker import embedded
from stoker.database import connect
from stoker.drivers.base import NewJob
from stoker.drivers.postgres import PostgresDriver
from stoker.errors import DriverUnavailable
from stoker.migrate import migrate
from tests.effects import Effects
from tests.processes import Supervisor
from tests.proxy import Proxy
from tests.support import until

T = TypeVar("T")

SETTINGS = {"STOKER_APP": "tests.soak.app", "STOKER_QUEUES": "default=2,lanes=1x4", "STOKER_GRACE": "5s"}


class Host:
    """One supervisor after the other, always with the same settings."""

    def __init__(self, directory: Path, name: str, url: str, env: dict[str, str]) -> None:
        self.name = name
        self.directory = directory / name
        self.directory.mkdir()
        self.proxy = Proxy(url)
        self._env = {**SETTINGS, **env}
        self.supervisor = self._start()

    def _start(self) -> Supervisor:
        supervisor = Supervisor(self.directory, self.proxy.url, **self._env).start()
        # Before its first line the interpreter ends of a SIGHUP as every program does.
        until(lambda: supervisor.events("supervisor.started"))
        return supervisor

    def restart(self, number: signal.Signals) -> None:
        """End it by a signal and start its successor."""
        self.supervisor.send(number)
        self.supervisor.wait()
        self.supervisor = self._start()

    def ended(self) -> bool:
        """Whether it ended without being told to."""
        assert self.supervisor.process
        return self.supervisor.process.poll() is not None

    def close(self) -> int:
        """Drain it; the exit code."""
        code, _ = self.supervisor.stop()
        until(lambda: not self.supervisor.processes())
        self.proxy.__exit__()
        return code

    def end(self) -> None:
        """Whatever happened: nobody is left."""
        self.supervisor.end()


class Theatre:
    """The server, the hosts, and a connection of the soak's own that is opened again when it is lost."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="stoker-soak-"))
        self.root.chmod(0o755)
        self._server = self._start_server()
        self._conn: psycopg.Connection | None = None
        with connect(self._server.url, name="soak") as conn:
            migrate(conn)
        self.effects = Effects(self.root)
        self.hosts = [Host(self.root, name, self._server.url, self.effects.env) for name in ("one", "two")]

    def __enter__(self) -> Theatre:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self.hosts:
            host.end()
        if self._conn:
            self._conn.close()
        self._server.close()
        if embedded.wait_until_stopped(self.root / "cluster") and kind is None:
            shutil.rmtree(self.root)

    def _start_server(self) -> embedded.Server:
        return embedded.acquire(self.root / "cluster", settings={"fsync": "off"})

    def restart_server(self) -> None:
        """Stop PostgreSQL under everybody, and start it again."""
        self._server.close()
        embedded.wait_until_stopped(self.root / "cluster")
        self._server = self._start_server()

    def enqueue(self, jobs: list[NewJob]) -> list[int]:
        """Store jobs, as often as it takes. When a commit's answer is lost there are twice as many: no harm is done."""
        return self._persist(lambda conn: [one.id for one in PostgresDriver(conn).enqueue(jobs)])

    def rows(self, query: LiteralString) -> list[Any]:
        """The answer of the database, as soon as there is one."""
        return self._persist(lambda conn: conn.execute(query).fetchall())

    def _persist(self, use: Callable[[psycopg.Connection], T]) -> T:
        while True:
            try:
                if self._conn is None or self._conn.closed:
                    self._conn = connect(self._server.url, name="soak")
                return use(self._conn)
            except (psycopg.OperationalError, DriverUnavailable):
                time.sleep(0.2)
