"""Lets a process sleep until a signal or a time, with handlers that do nothing."""

import os
import select
import signal
from types import FrameType


class Wake:
    """Signals of one process: TERM and INT ask it to stop, a child's end only wakes it, HUP means nothing."""

    def __init__(self) -> None:
        self.asked_to_stop = False
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for wanted in (signal.SIGTERM, signal.SIGINT):
            signal.signal(wanted, self._ask_to_stop)
        for noticed in (signal.SIGCHLD, signal.SIGHUP):
            signal.signal(noticed, _notice)

    def wait(self, seconds: float) -> None:
        """Return after a signal, or after that many seconds."""
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 4096)

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.asked_to_stop = True


def _notice(number: int, frame: FrameType | None) -> None:
    """Only there so that the signal wakes `wait` and is not inherited as ignored."""
