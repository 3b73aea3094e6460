"""The client's side: start the embedded server or join it, and hold it up for as long as this process wants it."""

import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from stoker.embedded import locks
from stoker.embedded.account import Account, server_account
from stoker.embedded.binaries import check_version, find_binaries, reachable_binaries
from stoker.embedded.cluster import DATABASE, USER
from stoker.embedded.errors import RootUnusable, StartFailed, StartTimedOut
from stoker.embedded.launch import log_since, start_guardian
from stoker.embedded.order import READY, Order, wanted_settings
from stoker.embedded.paths import Layout
from stoker.embedded.postmaster import Postmaster, live_postmaster


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server and this process's share in it.

    The share is a lock the kernel drops when the process ends, however it ends; forked children that keep the
    descriptor prolong it. It is not given back when this object is forgotten, only by `close()`.
    """

    root: Path
    url: str
    bin: Path
    lock: locks.Lock

    @property
    def lock_fd(self) -> int:
        return self.lock.fd

    def close(self) -> None:
        """Give the share back; the server stops when the last one is gone. Again is fine."""
        self.lock.release()

    def keep_over_exec(self) -> int:
        """Let the share survive an `exec` of this process; for the program that follows, closing the number ends it."""
        os.set_inheritable(self.lock.fd, True)
        return self.lock.fd


def acquire(
    root: Path | None = None,
    *,
    port: int = 0,
    settings: Mapping[str, str] | None = None,
    within: float = 300.0,
) -> Server:
    """Start the server in `root`, or join the one that runs there.

    Safe to call from any number of processes at once, after any of them, the guardian or the server was killed. `port`
    (0: Unix socket only; else also 127.0.0.1) and `settings` count for whoever starts it, not for who joins. Raises
    EmbeddedPostgresFailed with the end of the server's log, or when it is not ready within that many seconds.
    """
    layout = Layout.of(root)
    wanted = wanted_settings(settings)
    deadline = time.monotonic() + within
    with _explained(layout):
        account = server_account(layout)
        _make_root(layout, account)
        share = locks.shared(layout.users_lock)
        try:
            with locks.exclusive(layout.start_lock):
                bin_dir = reachable_binaries(find_binaries(), layout, account)
                found = _join_or_start(layout, bin_dir, port, wanted, deadline)
        except BaseException:
            share.release()
            raise
    if found is None:
        share.release()
        raise StartTimedOut(root=layout.root, log=layout.log, seconds=within)
    return Server(root=layout.root, url=_url(found), bin=bin_dir, lock=share)


def running_url(root: Path | None = None) -> str | None:
    """The URL of the server that runs in `root`, or None; starts and makes nothing."""
    layout = Layout.of(root)
    with _explained(layout):
        if locks.holding(layout.guardian_lock) is locks.Holding.NOBODY:
            return None
        found = live_postmaster(layout.data)
    return _url(found) if found and found.is_ready else None


def _join_or_start(
    layout: Layout, bin_dir: Path, port: int, settings: Mapping[str, str], deadline: float
) -> Postmaster | None:
    while time.monotonic() < deadline:
        if guardian_lock := locks.try_exclusive(layout.guardian_lock):
            with guardian_lock:  # the guardian inherits it, so no other client can start a second one meanwhile
                order = Order(str(layout.root), str(bin_dir), port, settings, guardian_lock.fd)
                return _start(layout, order, deadline)
        if (found := live_postmaster(layout.data)) and found.is_ready:
            return found
        time.sleep(0.02)
    return None


def _start(layout: Layout, order: Order, deadline: float) -> Postmaster | None:
    check_version(Path(order.bin_dir), layout)
    with start_guardian(layout, order) as started:
        ready, _, _ = select.select([started.says], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        if os.read(started.says, len(READY)) == READY and (found := live_postmaster(layout.data)):
            return found
    raise StartFailed(root=layout.root, log=layout.log, log_tail=log_since(layout.log, started.log_began_at))


def _make_root(layout: Layout, account: Account) -> None:
    if not layout.root.exists():
        layout.root.mkdir(parents=True, exist_ok=True, mode=0o755 if os.geteuid() == 0 else 0o700)
        (layout.root / ".gitignore").write_text("*\n")
    if account.is_caller:
        return
    owner, runs = layout.root.stat().st_uid, locks.holding(layout.guardian_lock) is not locks.Holding.NOBODY
    if owner != os.geteuid() and not runs:  # files of ours in there would shut its owner out
        raise RootUnusable(root=layout.root, why=f"it belongs to uid {owner}, and this is uid {os.geteuid()}")
    entered = subprocess.run(["/bin/sh", "-c", 'cd -- "$0"', layout.root], cwd="/", check=False, **account.popen_args())
    if entered.returncode != 0:
        raise RootUnusable(root=layout.root, why=f"PostgreSQL runs as uid {account.uid}, which may not enter it")


def _url(found: Postmaster) -> str:
    return f"postgresql://{USER}@/{DATABASE}?host={quote(str(found.socket_dir), safe='/')}&port={found.port}"


@contextmanager
def _explained(layout: Layout) -> Iterator[None]:
    """Turn what the file system refuses into an error that names the root."""
    try:
        yield
    except OSError as error:
        raise RootUnusable(root=layout.root, why=str(error)) from error
