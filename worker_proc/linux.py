"""The few Linux calls Python has no name for."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")


def become_subreaper() -> None:
    """Orphaned descendants become our children instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_on_parent_death(signum: int) -> None:
    """Have the kernel send us `signum` when the thread that is our parent ends.

    It is not retroactive: compare getppid() with the parent you remember afterwards.
    """
    _prctl(_PR_SET_PDEATHSIG, signum)


def signal_thread(pid: int, tid: int, signum: int) -> bool:
    """Send a signal to one thread of a process, or to any where the C library cannot; False when it is gone."""
    if hasattr(_libc, "tgkill"):
        return bool(_libc.tgkill(pid, tid, signum) == 0)
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return False
    return True


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in ns: goes on during suspend."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
