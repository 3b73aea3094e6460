"""This host's lease: one row renewed every second, one advisory lock, and the two words on the board they justify."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from psycopg.errors import InsufficientPrivilege

from stoker import logs
from stoker.drivers.calls import Call
from stoker.settings import Settings
from stoker.sql import statement
from worker_proc.board import Board, Word
from worker_proc.link import Link
from worker_proc.linux import boottime_ns
from worker_proc.messages import HostLost, Message

# A host whose session lock is gone is judged dead this long after its last renewal.
UNLOCKED_NS: Final = 10_000_000_000
# What the abort of a run may take after its unwinding failed, on top of kill_after.
KILL_MARGIN_S: Final = 2.0

log = logs.get("keeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """For how long after a renewal others believe in a host, and we in ourselves, in ns."""

    locked: int
    unlocked: int
    margin: int

    @classmethod
    def of(cls, settings: Settings) -> Windows:
        """As the settings say; a lease shorter than the unlocked window rules both."""
        return cls(
            locked=int(settings.lease * 1e9),
            unlocked=min(int(settings.lease * 1e9), UNLOCKED_NS),
            margin=int((settings.kill_after + KILL_MARGIN_S) * 1e9),
        )

    def trusted_until(self, renewed_at: int, *, locked: bool) -> int:
        """Until when this host may trust a lease renewed at that time."""
        return renewed_at + (self.locked if locked else self.unlocked) - self.margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells others where this host runs and how to prove that it does not."""

    hostname: str
    machine: str
    pid_namespace: str
    lock_path: str
    lock_inode: str

    @classmethod
    def of_this_process(cls, lock_fd: int) -> Identity:
        """Of this machine, and the file behind the host lock that every process of this boot inherits."""
        lock = os.fstat(lock_fd)
        return cls(
            hostname=socket.gethostname(),
            machine=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
            lock_path=str(Path(f"/proc/self/fd/{lock_fd}").readlink()),
            lock_inode=f"{lock.st_dev}:{lock.st_ino}",
        )


class HostLease:
    """Takes, renews and gives back the lease. The board's HOST_ID survives the keeper, and so does the lease."""

    name = "host lease"

    def __init__(
        self, link: Link, board: Board, *, settings: Settings, identity: Identity, tell: Callable[[Message], None]
    ) -> None:
        self._link = link
        self._board = board
        self._windows = Windows.of(settings)
        self._every = settings.renew_every
        self._identity = identity
        self._tell = tell
        self._locked = False
        self.renewed_at = 0
        self.due_at = 0.0

    @property
    def host_id(self) -> int:
        """The id that claims of this host carry; 0 before the first lease."""
        return self._board[Word.HOST_ID]

    @property
    def held(self) -> bool:
        """True once this keeper has renewed the lease."""
        return self.renewed_at != 0

    def run(self) -> None:
        """Renew; after a loss take a new id."""
        self.due_at = time.monotonic() + self._every
        if self.host_id and not self._renew(self.host_id):
            self._lose()
        if not self.host_id:
            self._register()

    def session_ended(self) -> None:
        """Nobody holds the lock now: trust the last renewal only as long as others do without it."""
        self._locked = False
        if self.held:
            self._board[Word.TRUSTED_UNTIL] = min(self._board[Word.TRUSTED_UNTIL], self._board[Word.TRUSTED_UNLOCKED])
        self.due_at = 0.0

    def give_back(self) -> bool:
        """End the lease, unless a job of this host is still running. Every worker must be gone."""
        host_id = self.host_id
        self._board[Word.TRUSTED_UNTIL] = 0
        with self._link.limited() as db:
            if not db.run(_drop(host_id)):
                return False
            self._board[Word.HOST_ID] = 0
            db.run(_unlock(host_id))
        return True

    def _register(self) -> None:
        host_id = secrets.randbits(62) or 1
        with self._link.limited() as db:
            db.run(_add(host_id, self._identity))
        if self._renew(host_id):
            self._board[Word.HOST_ID] = host_id
            log.event("host.leased", host=host_id, hostname=self._identity.hostname)

    def _renew(self, host_id: int) -> bool:
        asked_at = boottime_ns()
        with self._link.limited() as db:
            answer = db.run(_renewal(host_id))
            if answer is None:
                return False
            self._locked = answer or self._lock(host_id)
        self.renewed_at = asked_at
        self._board[Word.TRUSTED_UNTIL] = self._windows.trusted_until(asked_at, locked=self._locked)
        self._board[Word.TRUSTED_UNLOCKED] = self._windows.trusted_until(asked_at, locked=False)
        return True

    def _lock(self, host_id: int) -> bool:
        """Take the session lock. Whoever else holds it is a predecessor of ours that its server has not buried yet."""
        with self._link.limited() as db:
            if db.run(_try_lock(host_id)):
                return True
            try:
                db.run(_evict(host_id))
            except InsufficientPrivilege as error:
                log.warning("host.lock_taken", host=host_id, error=str(error))
        return False

    def _lose(self) -> None:
        log.error("host.judged_dead", host=self.host_id)
        self._board[Word.TRUSTED_UNTIL] = self._board[Word.HOST_ID] = 0
        self._locked = False
        self._tell(HostLost())


def _add(host_id: int, identity: Identity) -> Call[None]:
    params = {
        "id": host_id,
        "hostname": identity.hostname,
        "machine": identity.machine,
        "pid_namespace": identity.pid_namespace,
        "lock_path": identity.lock_path,
        "lock_inode": identity.lock_inode,
    }
    return Call(statement("add_host"), params, lambda _: None)


def _renewal(host_id: int) -> Call[bool | None]:
    """Whether this session holds the lock; None when the row is gone."""
    return Call(statement("renew_host"), {"id": host_id}, lambda rows: rows[0][0] if rows else None)


def _try_lock(host_id: int) -> Call[bool]:
    return Call(statement("lock_host"), {"id": host_id}, lambda rows: rows[0][0])


def _unlock(host_id: int) -> Call[None]:
    return Call(statement("unlock_host"), {"id": host_id}, lambda _: None)


def _evict(host_id: int) -> Call[None]:
    return Call(statement("evict_host_lock"), {"id": host_id}, lambda _: None)


def _drop(host_id: int) -> Call[bool]:
    return Call(statement("drop_host"), {"id": host_id}, lambda rows: bool(rows))
