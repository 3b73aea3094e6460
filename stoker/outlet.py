"""Writes to standard output and error that neither raise nor block for long, whatever is at the other end."""

import io
import os
import select
import socket
import stat
import sys
import time

_PATIENCE = 0.25
_SAFE_CHUNK = 512 if not hasattr(select, "PIPE_BUF") else select.PIPE_BUF


class Outlet:
    """A descriptor that others share (so its flags are left alone) and that may be closed, broken or full.

    `write` hands over everything at once where the kernel allows it; it waits up to a quarter of a second for a reader
    that makes no progress, once, and from then on drops at once until the reader is back. `dropped` counts the writes
    that were lost, in whole or in part.
    """

    def __init__(self, *, fd: int) -> None:
        self.fd = fd
        self.dropped = 0
        self._stuck = False
        self._torn = False

    def write(self, data: bytes) -> bool:
        """Write all of it, or return False and count it as dropped."""
        left = memoryview(b"\n" + data if self._torn else data)
        size = len(left)
        try:
            left = self._push(left)
        except OSError:
            self._stuck = False
        if left:
            self.dropped += 1
            self._torn = self._torn or len(left) < size
            return False
        self._stuck = self._torn = False
        return True

    def _push(self, left: memoryview) -> memoryview:
        give_up_at = time.monotonic() + _PATIENCE
        while left:
            try:
                left = left[_send(self.fd, left) :]
                give_up_at = time.monotonic() + _PATIENCE
            except BlockingIOError:
                rest = give_up_at - time.monotonic()
                if self._stuck or rest <= 0 or not _writable(self.fd, rest):
                    self._stuck = True
                    break
        return left


class _OutletStream(io.RawIOBase):
    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._outlet.fd

    def isatty(self) -> bool:
        return _is_terminal(self._outlet.fd)

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._outlet.write(piece)
        return len(piece)


def fill_standard_descriptors() -> None:
    """Open /dev/null in place of closed standard descriptors, before a socket gets number 1 or 2 and is printed to."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # Inheritable, as standard descriptors are: programs we start would find the gap again.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def guard_standard_streams() -> None:
    """Make `print` in this process harmless: whole lines, any text, no error and no long wait at a bad reader."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.BufferedWriter(_OutletStream(Outlet(fd=fd)))
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        setattr(sys, name, stream)


def flush_standard_streams() -> None:
    """Write out what is buffered, before an exit that takes nothing apart. Raises nothing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001  (the application may have put anything there, and the exit must follow)
            continue


def _send(fd: int, data: memoryview) -> int:
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode):
        return _send_pipe(fd, data)
    if stat.S_ISSOCK(mode) and hasattr(socket, "MSG_DONTWAIT"):
        return _send_socket(fd, data)
    if not _writable(fd, 0):
        raise BlockingIOError
    return os.write(fd, data)


def _send_pipe(fd: int, data: memoryview) -> int:
    # O_NONBLOCK on the shared description would surprise everybody else who writes to this pipe: open one of our own.
    try:
        own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        if not _writable(fd, 0):
            raise BlockingIOError from None
        return os.write(fd, data[:_SAFE_CHUNK])
    try:
        return os.write(own, data)
    finally:
        os.close(own)


def _send_socket(fd: int, data: memoryview) -> int:
    borrowed = socket.socket(fileno=fd)
    try:
        return borrowed.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    finally:
        borrowed.detach()


def _writable(fd: int, timeout: float) -> bool:
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(timeout * 1000))


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
