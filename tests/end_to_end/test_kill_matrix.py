"""Every process, every signal, every moment: nothing is lost, what was written is not done twice, nobody is left."""

import contextlib
import itertools
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.processes import Supervisor, handles
from tests.side_table import Database
from tests.support import FULL_SCALE, SOON_S, until

VICTIMS = ("supervisor", "fork server", "worker", "keeper")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGSTOP)
MOMENTS = ("booting", "idle", "busy", "draining")
# What no other test does; every cell takes some seconds.
SAMPLE = (
    ("supervisor", signal.SIGKILL, "draining"),
    ("supervisor", signal.SIGSTOP, "busy"),
    ("fork server", signal.SIGKILL, "busy"),
    ("worker", signal.SIGKILL, "booting"),
    ("keeper", signal.SIGKILL, "draining"),
    ("keeper", signal.SIGSTOP, "busy"),
)
CELLS = tuple(itertools.product(VICTIMS, SIGNALS, MOMENTS)) if FULL_SCALE else SAMPLE
# A process that stands still for so long is missed by nobody yet.
STOPPED_S = 0.5


class Cell:
    """A supervisor with two workers, two jobs that go on until they are released, and some that wait behind them."""

    def __init__(self, directory: Path, db: Database) -> None:
        self.db = db
        self.supervisor = Supervisor(directory, db.url, STOKER_QUEUES="default=2", STOKER_GRACE="30s")
        self.jobs: list[int] = []
        self._deadly: tuple[int, ...] = ()

    def reach(self, moment: str, victim: str) -> None:
        """Start, and come to the moment."""
        self.supervisor.start()
        if moment == "booting":
            self._enqueue()
            # Before its first line the interpreter ends of a signal as every program does, with a traceback of its own.
            until(lambda: handles(self.supervisor.pid, signal.SIGTERM))
            until(lambda: self._pids(victim))
            return
        self.supervisor.ready()
        if moment == "idle":
            return
        self._enqueue()
        until(lambda: len(self.db.effects("start")) >= 2)
        if moment == "draining":
            self.supervisor.send(signal.SIGTERM)
            until(lambda: self.supervisor.events("drain.started"))

    def strike(self, victim: str, number: signal.Signals) -> None:
        """Send it to the first process of that role, and let a stopped one go on after a moment."""
        pid = until(lambda: self._pids(victim))[0]
        self._deadly = (-number,) if victim == "supervisor" else ()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            if number == signal.SIGSTOP:
                time.sleep(STOPPED_S)
                os.kill(pid, signal.SIGCONT)

    def finish(self) -> None:
        """Let everything end: under this supervisor if it goes on, under its successor otherwise."""
        if not self.jobs:
            self._enqueue()
        self.db.release(*self.jobs[:2])
        until(lambda: self._ended() or self._all_done())
        if self._ended():
            # The bare number: before anything of ours could hear it, or SIGKILL.
            assert self.supervisor.wait() in (0, 75, *self._deadly), self.supervisor.log
            until(lambda: not self.supervisor.processes(), within=SOON_S)
            self.supervisor = self._successor()
            self.db.until_all_done(self.jobs)
        self.supervisor.ready()
        code, _ = self.supervisor.stop()
        assert code == 0, self.supervisor.log

    def check(self) -> None:
        """What holds at every end."""
        db = self.db
        assert db.one("select count(*) from stoker.jobs") == 0
        assert db.one("select count(*) from stoker.finished") == len(self.jobs)
        assert set(db.effects("end")) == set(self.jobs[:2])
        assert db.one("select count(*) from stoker.suspects") == 0
        assert db.one("select count(*) from stoker.hosts") == 0
        until(lambda: not self.supervisor.processes(), within=SOON_S)
        advisory = (
            "select count(*) from pg_locks l join pg_database d on d.oid = l.database where locktype = 'advisory'"
        )
        until(lambda: not db.one(f"{advisory} and d.datname = current_database()"))
        assert "Traceback" not in self.supervisor.log

    def end(self) -> None:
        self.supervisor.end()

    def _enqueue(self) -> None:
        self.jobs = [*self.db.enqueue("held", times=2), *self.db.enqueue("noop", times=20)]

    def _successor(self) -> Supervisor:
        env = {name: value for name, value in self.supervisor.env.items() if name.startswith("STOKER_")}
        directory, url = self.supervisor.log_path.parent, env.pop("STOKER_DATABASE_URL")
        return Supervisor(directory, url, **env).start().ready()

    def _pids(self, victim: str) -> list[int]:
        if victim == "supervisor":
            return [self.supervisor.pid]
        try:
            return [process.pid for process in self.supervisor.processes(f"stoker: {victim}")]
        except psutil.NoSuchProcess:
            return []

    def _ended(self) -> bool:
        assert self.supervisor.process
        return self.supervisor.process.poll() is not None

    def _all_done(self) -> bool:
        done = "select count(*) from stoker.finished where state = 'done' and id = any(%s)"
        return bool(self.db.one(done, self.jobs) == len(self.jobs)) and not self.supervisor.events("drain.started")


@pytest.mark.parametrize(
    ("victim", "number", "moment"), CELLS, ids=[f"{victim}-{number.name}-{moment}" for victim, number, moment in CELLS]
)
def test_cell(tmp_path: Path, db: Database, victim: str, number: signal.Signals, moment: str) -> None:
    cell = Cell(tmp_path, db)
    try:
        cell.reach(moment, victim)
        cell.strike(victim, number)
        cell.finish()
        cell.check()
    except BaseException:
        print(cell.supervisor.log)
        raise
    finally:
        cell.end()
