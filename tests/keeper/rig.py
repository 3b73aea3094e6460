"""A keeper driven by hand in the test's own process, with board, pipe and worker slots as a supervisor makes them."""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from stoker.database import connect
from stoker.drivers.base import Claimed, Holder, JobView, NewJob, Outcome, Settlement
from stoker.drivers.postgres import PostgresDriver
from stoker.settings import Settings
from tests.support import HANGS_S, failure
from worker_proc.board import Board, SlotState, SlotWord, Word
from worker_proc.channel import Channel
from worker_proc.control import Control
from worker_proc.keeper import Keeper
from worker_proc.messages import AnyMessage, ChildDied, DeathFacts, ForkSpec, How, Lane, SlotRef

T = TypeVar("T")
M = TypeVar("M")


class HostLockFile:
    """What every process of one boot inherits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def free(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Host:
    """A host of the fleet: everything but the processes. `queues` has one worker slot of one lane per entry."""

    def __init__(self, url: str, tmp_path: Path, *, name: str = "a", queues: tuple[str, ...] = (), **settings: Any):
        self.settings = Settings(database_url=url, **settings)
        self.lock = HostLockFile(tmp_path / f"{name}.lock")
        self.board = Board.create()
        self.keeper_slot = self.board.add_slot(1)
        self.slots = [self.board.add_slot(1) for _ in queues]
        self.refs = [SlotRef(n, queue, self.slots[n].offset, 1) for n, queue in enumerate(queues)]
        self.wake_fds = [os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in queues]
        self.next_claim_no = 1
        self.fleet: list[Boot] = []

    def boot(self, **changes: Any) -> "Boot":
        """A keeper for this host; a later one continues where an earlier one ended."""
        self.fleet.append(Boot(self, **changes))
        return self.fleet[-1]

    @property
    def id(self) -> int:
        return self.board[Word.HOST_ID]

    def worker_ready(self, at: int) -> int:
        """Let the slot's worker be ready; returns its claim number."""
        slot = self.slots[at]
        slot.reset(generation=1, claim_no=self.claim_number())
        slot[SlotWord.PID] = os.getpid()
        slot[SlotWord.STATE] = SlotState.READY
        return slot[SlotWord.CLAIM_NO]

    def claim_number(self) -> int:
        number, self.next_claim_no = self.next_claim_no, self.next_claim_no + 1
        return number

    def woken(self, at: int) -> bool:
        """Whether the slot's worker was woken since the last look."""
        try:
            return os.eventfd_read(self.wake_fds[at]) > 0
        except BlockingIOError:
            return False

    def close(self) -> None:
        for boot in self.fleet:
            boot.close()
        self.lock.free()
        for fd in self.wake_fds:
            os.close(fd)
        slots = [self.keeper_slot, *self.slots]
        for slot in slots:
            slot._words = memoryview(b"").cast("q")
        self.board.close()


class Boot:
    """One life of a host's keeper."""

    def __init__(self, host: Host, *, names: tuple[str, ...] = (), settings: Settings | None = None) -> None:
        self.host = host
        self.supervisor, theirs = Channel.pair()
        self.supervisor.setblocking(False)
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        slot = host.board.slot(host.keeper_slot.offset, 1)
        slot.reset(generation=1, claim_no=host.claim_number())
        self.control = Control(channel=theirs, board=host.board, slot=slot, event_fd=self._event_fd, grace=5.0)
        self._theirs = theirs
        spec = ForkSpec(
            slot=0,
            role="keeper",
            title="stoker: keeper",
            offset=slot.offset,
            lanes=1,
            claim_no=slot[SlotWord.CLAIM_NO],
            generation=1,
            names=list(names),
            workers=host.refs,
        )
        settings = settings or host.settings
        self.said: list[AnyMessage] = []
        # Until the deadline, when the drain was over.
        self.left_s = 0.0
        self._closed = False
        try:
            self.keeper = Keeper(
                self.control, spec=spec, settings=settings, wake_fds=host.wake_fds, lock_fd=host.lock.fd
            )
        except BaseException:
            self._close_ends()
            raise

    def turn_until(self, fact: Callable[[], T], *, within: float = HANGS_S) -> T:
        """Turn and wait as the role's loop does, until `fact()` is truthy."""
        began = time.monotonic()
        while not (seen := fact()):
            if time.monotonic() - began >= within:
                raise AssertionError(failure(fact, seen, f"{within:g} s", said=self.said))
            self.keeper.wait(min(0.05, self.keeper.turn()))
            self.listen()
        return seen

    def turn_for(self, seconds: float) -> None:
        """Turn and wait for a while."""
        end = time.monotonic() + seconds
        self.turn_until(lambda: time.monotonic() >= end)

    def listen(self) -> list[AnyMessage]:
        """Everything said so far."""
        while True:
            try:
                self.said.append(self.supervisor.receive())
            except BlockingIOError:
                return self.said

    def heard(self, kind: type[M]) -> list[M]:
        """The messages of one kind so far."""
        return [message for message in self.listen() if isinstance(message, kind)]

    def until_said(self, kind: type[M], *, within: float = HANGS_S) -> M:
        """Turn until a message of that kind was sent."""
        return self.turn_until(lambda: self.heard(kind), within=within)[-1]

    def backend_pid(self) -> int:
        """The session's backend."""
        return self.keeper.session.conn.info.backend_pid

    def close(self) -> None:
        """End as a killed process does: connections and descriptors close, nothing else."""
        if not self._closed:
            self._closed = True
            self.keeper.close()
            # A process would end with its threads; here the next test uses the descriptors' numbers.
            assert self.keeper._upkeep.stop(within=HANGS_S)
            self._close_ends()

    def _close_ends(self) -> None:
        for end in (self.supervisor, self._theirs, self.control._signals, self.control._signalled):
            end.close()
        os.close(self.control._poke)
        os.close(self._event_fd)


def death(
    claim_no: int, how: How, *lanes: Lane, signal: int | None = 9, code: int | None = None, **facts: Any
) -> ChildDied:
    """A death as the supervisor reports it."""
    known = {"queue": "", "backend_pid": 0, "title": ""} | facts
    return ChildDied(claim_no, how, list(lanes), DeathFacts(4711, code, signal, "box", **known))


class Queue:
    """The database as an application and a worker's desk see it."""

    def __init__(self, url: str) -> None:
        self.conn: psycopg.Connection[Any] = connect(url, name="tests")
        self.driver = PostgresDriver(self.conn)

    def add(self, count: int = 1, *, queue: str = "default", name: str = "job", **more: Any) -> list[int]:
        return [self.driver.enqueue([NewJob(name=name, queue=queue, payload="{}", **more)])[0].id for _ in range(count)]

    def claim(self, host: int, claim_no: int, limit: int = 100, *, queue: str = "default") -> list[Claimed]:
        return self.driver.claim(queue, limit, Holder(host, claim_no))

    def rows(self, text: Any, *params: Any) -> list[tuple[Any, ...]]:
        return self.conn.execute(text, params or None).fetchall()

    def one(self, text: Any, *params: Any) -> Any:
        """The only column of the only row, or None."""
        rows = self.rows(text, *params)
        return rows[0][0] if rows else None

    def view(self, job_id: int) -> JobView:
        view = self.driver.job(job_id)
        assert view, f"job {job_id} is gone"
        return view

    def state(self, job_id: int) -> str:
        view = self.driver.job(job_id)
        return view.state if view else "gone"

    def states(self) -> dict[str, int]:
        """How many live jobs are in each state."""
        return dict(self.rows("select state, count(*) from stoker.jobs group by state"))

    def settle(self, run: Claimed, outcome: Outcome, **facts: Any) -> None:
        self.driver.settle([Settlement(job_id=run.id, run_no=run.run_no, outcome=outcome, **facts)])

    def fill(self, count: int, *, state: str = "ready", due_in: str | None = None) -> None:
        """Many jobs at once, not by the front door."""
        self.conn.execute(
            "insert into stoker.jobs (pos, queue, name, payload, state, run_at)"
            " select n, 'default', 'job', '{}', %s, clock_timestamp() + %s::interval from generate_series(1, %s) n",
            (state, due_in, count),
        )

    def advisory_locks(self, pid: int | None = None) -> int:
        """How many are held in this database, or by one backend."""
        count: int = self.one(
            "select count(*) from pg_locks l join pg_database d on d.oid = l.database"
            " where d.datname = current_database() and l.locktype = 'advisory' and l.granted"
            " and (%s::int is null or l.pid = %s)",
            pid,
            pid,
        )
        return count

    def kill_backend(self, pid: int) -> None:
        self.rows("select pg_terminate_backend(%s, 5000)", pid)

    def close(self) -> None:
        self.conn.close()
