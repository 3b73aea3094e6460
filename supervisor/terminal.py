"""Tells a hang-up because the terminal closed from one that asks for a reload."""

from __future__ import annotations

import os
import signal


class Terminal:
    """The controlling terminal at the time of start. Ask before the handlers are installed."""

    def __init__(self) -> None:
        # nohup means: the terminal's end is of no interest.
        self._matters = _exists() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN

    def has_closed(self) -> bool:
        """True once the terminal this was started on is gone."""
        return self._matters and not _exists()


def _exists() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
