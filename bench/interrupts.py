"""Ctrl-C and SIGTERM: heard at once where the benchmark waits, soon where it works, and never in the clean-up after.

An exception out of a signal handler at any bytecode could lose a process between its start and the block that ends it,
so the handler raises only inside `waiting`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupts:
    """Raises KeyboardInterrupt once."""

    def __init__(self) -> None:
        self._asked = self._raised = self._waiting = False

    def install(self) -> None:
        """Take over both signals. Main thread only."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def check(self) -> None:
        """Raise if somebody asked."""
        if self._asked and not self._raised:
            self._raised = True
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Here it may be raised at any moment: everything that was started is in a block that ends it."""
        self._waiting = True
        try:
            self.check()
            yield
        finally:
            self._waiting = False

    def _hear(self, number: int, frame: object) -> None:
        self._asked = True
        if self._waiting:
            self.check()


interrupts = Interrupts()
