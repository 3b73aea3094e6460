"""The process that owns the embedded server, started by a client.

It makes the cluster, runs the server, starts it again after a crash, and stops it with the last user. The server gets a
fast stop from the kernel when the guardian is killed.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from stoker.embedded import locks
from stoker.embedded.account import server_account
from stoker.embedded.cluster import ClusterUnfinished, ensure_cluster, ensure_socket_dir, remove_socket_dir
from stoker.embedded.order import READY, Order
from stoker.embedded.paths import Layout
from stoker.embedded.postmaster import (
    FAST_STOP,
    FAST_STOP_LIMIT,
    IMMEDIATE_STOP,
    end_leftover,
    live_postmaster,
    pid_on_file,
    take_over_pid_file,
)
from stoker.embedded.programs import program_args
from stoker.embedded.wake import Wake

_TITLE = "stoker: postgres guardian"
# How long the backends of a killed server may take to leave its shared memory.
_TAKE_OVER_LIMIT = 30.0
# A flock cannot be waited for along with other things, and a thread that waits must not live in a process that forks.
_LOOK_EVERY = 0.25
_CRASHES_PER_MINUTE = 5


class Guardian:
    """One server, from its start to its end."""

    def __init__(self, *, order: Order, wake: Wake) -> None:
        self._order = order
        self._wake = wake
        self._layout = Layout(Path(order.root))
        self._account = server_account(self._layout)
        self._crashes: list[float] = []

    def run(self) -> int:
        """Serve until nobody needs it; the exit code is 0 unless the server would not run."""
        self._layout.hold.unlink(missing_ok=True)
        ensure_cluster(
            layout=self._layout,
            bin_dir=Path(self._order.bin_dir),
            account=self._account,
            settings=self._order.settings,
        )
        server = self._start()
        if server is not None:
            _say_ready()
        while server is not None:
            server = self._start() if self._serve(server) else None
        remove_socket_dir(self._layout)
        return 0 if self._wake.asked_to_stop or not self._crashes else 1

    def _start(self) -> subprocess.Popen[bytes] | None:
        """A ready server, or None when it will not run or is not wanted any more."""
        give_up_at = time.monotonic() + _TAKE_OVER_LIMIT
        while not self._wake.asked_to_stop:
            end_leftover(self._layout.data)
            ensure_socket_dir(self._layout, self._account)
            take_over_pid_file(self._layout.data)
            server = self._launch()
            if self._became_ready(server):
                return server
            # A pid that is not this server's means a predecessor in its way, which goes away by itself.
            if pid_on_file(self._layout.data) in (None, server.pid) or time.monotonic() > give_up_at:
                return None
            self._wake.wait(_LOOK_EVERY)
        return None

    def _launch(self) -> subprocess.Popen[bytes]:
        command = self._order.command(data=self._layout.data, socket_dir=self._layout.socket_dir)
        return subprocess.Popen(command, **program_args(self._account, ends_with_us_by=FAST_STOP))

    def _became_ready(self, server: subprocess.Popen[bytes]) -> bool:
        while server.poll() is None:
            found = live_postmaster(self._layout.data)
            if found and found.pid == server.pid and found.is_ready:
                return True
            if self._wake.asked_to_stop:
                _stop(server)
            self._wake.wait(0.02)
        return False

    def _serve(self, server: subprocess.Popen[bytes]) -> bool:
        """Watch the server until it has ended; True when it crashed and should be started again."""
        while (status := server.poll()) is None:
            if self._wake.asked_to_stop or self._root_is_gone():
                _stop(server)
                return False
            if not self._layout.hold.exists() and (users := locks.try_exclusive(self._layout.users_lock)):
                with users:  # whoever comes now waits until the server is down, and starts it again
                    _stop(server)
                return False
            self._wake.wait(_LOOK_EVERY)
        return status != 0 and self._may_restart()

    def _may_restart(self) -> bool:
        now = time.monotonic()
        self._crashes = [*(at for at in self._crashes if now - at < 60), now]
        return len(self._crashes) <= _CRASHES_PER_MINUTE

    def _root_is_gone(self) -> bool:
        """Somebody removed the directory under us; a new one of that name is not ours."""
        try:
            return not os.path.samestat(self._layout.guardian_lock.stat(), os.fstat(self._order.lock_fd))
        except FileNotFoundError:
            return True


def main() -> int:
    order = Order.load(sys.argv[1])
    _detach()
    os.ftruncate(order.lock_fd, 0)
    os.pwrite(order.lock_fd, b"%d\n" % os.getpid(), 0)
    _set_title()
    try:
        return Guardian(order=order, wake=Wake()).run()
    except (OSError, subprocess.SubprocessError, ClusterUnfinished) as error:
        sys.stderr.write(f"{_TITLE}: {error}\n")
        return 1


def _detach() -> None:
    """Belong to nobody: the client need not reap us, and what ends its children does not end us."""
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _set_title() -> None:
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    setproctitle(_TITLE)


def _say_ready() -> None:
    """The client waits for this word, or for our end."""
    with suppress(BrokenPipeError):  # the client that asked is gone; others may be waiting for the server
        os.write(1, READY)
    os.dup2(2, 1)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(FAST_STOP)
    try:
        server.wait(FAST_STOP_LIMIT)
    except subprocess.TimeoutExpired:
        server.send_signal(IMMEDIATE_STOP)
        server.wait()
