"""Starting and stopping by hand: a server that stays up without users, and the way to end it."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.embedded import locks
from stoker.embedded.paths import Layout
from stoker.embedded.server import acquire

_POLL = 0.05


@dataclass(frozen=True)
class User:
    """A process that has a share in the server."""

    pid: int
    name: str


@dataclass(frozen=True)
class StopReport:
    """What `stop` found and left: `users` are those that keep the server up, as far as we may see them."""

    was_running: bool
    stopped: bool
    in_use: bool = False
    users: tuple[User, ...] = ()


def start(root: Path | None = None) -> str:
    """Start or join the server and keep it up after this process, until `stop`. Returns its URL."""
    server = acquire(root)
    try:
        Layout(server.root).hold.touch()
    finally:
        server.close()
    return server.url


def stop(root: Path | None = None, *, force: bool = False, within: float = 90.0) -> StopReport:
    """Take back what `start` gave and wait until the server is down.

    With other users it stays up and the report names them, unless forced: then their connections break.
    """
    layout = Layout.of(root)
    layout.hold.unlink(missing_ok=True)
    if not _runs(layout):
        return StopReport(was_running=False, stopped=True)
    if force:
        _ask_guardian(layout)
    deadline = time.monotonic() + within
    while _runs(layout) and time.monotonic() < deadline:
        if not force and locks.holding(layout.users_lock) is locks.Holding.SHARED:
            return StopReport(was_running=True, stopped=False, in_use=True, users=users_of(layout))
        time.sleep(_POLL)
    return StopReport(was_running=True, stopped=not _runs(layout))


def wait_until_stopped(root: Path | None = None, *, within: float = 90.0) -> bool:
    """Whether the server is down within that many seconds; asks nobody to stop."""
    layout = Layout.of(root)
    deadline = time.monotonic() + within
    while (runs := _runs(layout)) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return not runs


def users_of(layout: Layout) -> tuple[User, ...]:
    """The processes that have the users' lock file open, except this one and those hidden from us."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and str(layout.users_lock) in {file.path for file in process.open_files()}:
                found.append(User(process.pid, process.name()))
    return tuple(found)


def _runs(layout: Layout) -> bool:
    return locks.holding(layout.guardian_lock) is not locks.Holding.NOBODY


def _ask_guardian(layout: Layout) -> None:
    """Its pid is valid as long as it holds the lock."""
    text = layout.guardian_lock.read_text().strip()
    if text and _runs(layout):
        with suppress(ProcessLookupError):
            os.kill(int(text), signal.SIGTERM)
