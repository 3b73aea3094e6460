"""Forks a child that becomes its nearest subreaper's own: through a middle process, which exits at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

_PID_BYTES = 4


@dataclass(frozen=True, slots=True)
class Newborn:
    """A child that exists and waits: closing `go` without a byte ends it, `release` lets it run."""

    pid: int
    pidfd: int
    go: int

    def release(self) -> None:
        """Let the child run."""
        os.write(self.go, b"g")
        os.close(self.go)

    def forsake(self) -> None:
        """Let the child end without having done anything."""
        os.close(self.go)
        os.close(self.pidfd)


def fork_orphan(live: Callable[[], NoReturn]) -> Newborn:
    """Fork a process group of its own that is no child of ours, and have it wait.

    `live` is called in the child once it was released; every signal is masked there. Raises OSError when the system
    refuses to fork.
    """
    ours, theirs = socket.socketpair()
    go_read, go_write = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        middle = os.fork()
        if middle == 0:
            _end_after(lambda: _middle(ours, theirs, go_read, go_write, live))
    except OSError:
        os.close(go_write)
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        os.close(go_read)
    return _adopt(middle, ours, go_write)


def _adopt(middle: int, gate: socket.socket, go: int) -> Newborn:
    # The middle lives until the gate closes, and an ended child keeps its pid until then: the pidfd is the right one.
    with gate:
        pid = int.from_bytes(gate.recv(_PID_BYTES), "little", signed=True)
        pidfd = os.pidfd_open(pid) if pid > 0 else -1
    # An application that ignores SIGCHLD has the kernel reap it.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(middle, 0)
    if pid <= 0:
        os.close(go)
        raise OSError(-pid, os.strerror(-pid) if pid else "the process between was killed")
    return Newborn(pid, pidfd, go)


def _middle(
    ours: socket.socket, theirs: socket.socket, go_read: int, go_write: int, live: Callable[[], NoReturn]
) -> None:
    ours.close()
    os.close(go_write)
    try:
        pid = os.fork()
    except OSError as error:
        theirs.send((-(error.errno or 0)).to_bytes(_PID_BYTES, "little", signed=True))
        return
    if pid == 0:
        _end_after(lambda: _wait_and_live(theirs, go_read, live))
    os.setpgid(pid, pid)
    theirs.send(pid.to_bytes(_PID_BYTES, "little", signed=True))
    theirs.recv(1)


def _wait_and_live(gate: socket.socket, go: int, live: Callable[[], NoReturn]) -> None:
    gate.close()
    # The byte is sent after the middle was reaped. An end of file instead does not prove that we were re-parented.
    if os.read(go, 1):
        os.close(go)
        live()


def _end_after(work: Callable[[], None]) -> NoReturn:
    """Never return into the frames of the process that forked."""
    try:
        work()
    finally:
        os._exit(1)
