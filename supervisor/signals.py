"""Signals as bytes on a descriptor: handlers do nothing, so nothing is done inside a handler."""

from __future__ import annotations

import signal
import socket
from typing import Final

HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)


class SignalPipe:
    """Takes over the supervisor's signals and hands them out in order. Main thread only, except `put`."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        self._before = {number: signal.getsignal(number) for number in HEARD}

    def fileno(self) -> int:
        """For selectors."""
        return self._ours.fileno()

    def install(self) -> None:
        """Start hearing."""
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        for number in HEARD:
            signal.signal(number, _written_to_the_wakeup_descriptor)

    def put(self, number: signal.Signals) -> None:
        """As if the signal had come. Safe from any thread."""
        self._theirs.send(bytes([number]))

    def take(self) -> list[signal.Signals]:
        """The signals that came since the last call."""
        try:
            return [signal.Signals(number) for number in self._ours.recv(4096)]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Give the signals back to whoever had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        self._ours.close()
        self._theirs.close()


def _written_to_the_wakeup_descriptor(number: int, frame: object) -> None:
    """Python writes the number there only for signals that have a Python handler."""
