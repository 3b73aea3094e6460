"""Unwinds a sync handler in the main thread: the one signal handler that may raise, and the gate it respects."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Final

from stoker.errors import Interrupted
from stoker.shield import shielded

UNWIND: Final = signal.SIGRTMIN + 3


class Unwinder:
    """Lets the control thread raise `Interrupted` in the body that main executes, once per run and nowhere else.

    Main opens the gate around middleware and handler only. A strike that comes while the gate is shut is remembered for
    the run it names: raised when that run opens the gate, forgotten when another one does.
    """

    def __init__(self) -> None:
        self._main = threading.main_thread().ident
        self._current = 0
        self._open = 0
        self._target = 0
        self._reason = ""

    def install(self) -> None:
        """Take over the signal. Main thread only."""
        signal.signal(UNWIND, self._on_signal)

    def name(self, token: int) -> None:
        """Main is about to execute the run with this token (a number no two runs of this process share)."""
        self._current = token

    def open(self) -> None:
        """The body begins: from here an interrupt may strike. Raises it if it is due already."""
        self._open = self._current
        if self._target == self._open:
            self._strike()

    def close(self) -> None:
        """The body is over."""
        self._open = 0

    def strike(self, token: int, reason: str) -> None:
        """Unwind the run with this token, if it is still executing (control thread)."""
        self._reason = reason
        self._target = token
        if self._main is not None:
            signal.pthread_kill(self._main, UNWIND)

    def strike_again(self) -> bool:
        """Repeat a strike that could not be carried out; True while one is outstanding (control thread)."""
        outstanding = self._target != 0 and self._target == self._open
        if outstanding and self._main is not None:
            signal.pthread_kill(self._main, UNWIND)
        return outstanding

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._open and self._target == self._open and not _in_finalizer(frame):
            self._strike()

    def _strike(self) -> None:
        # Cleared before the raise, so it strikes once, and never while main handles what it raised.
        self._open = self._target = 0
        interrupt = Interrupted(reason=self._reason)
        if shielded.depth:
            shielded.pending = interrupt
            return
        raise interrupt


def _in_finalizer(frame: FrameType | None) -> bool:
    """What is raised in a finalizer is printed and lost."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
