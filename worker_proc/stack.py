"""Leaves the stacks of a process's threads in a file: when its parent asks for them, and when a fault ends it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
from typing import Final

# Beside the signal that unwinds a body.
DUMP: Final = signal.SIGRTMIN + 4
_STANDARD_ERROR: Final = 2


def leave_stacks_in(fd: int) -> None:
    """From here on DUMP and every fault (SEGV, ABRT, BUS, FPE, ILL) write the stacks of all threads to `fd`.

    The handlers are C and need nothing of the interpreter, which a C call may be keeping. Once per process.
    """
    faulthandler.enable(file=fd, all_threads=True)
    faulthandler.register(DUMP, file=fd, all_threads=True, chain=False)
    os.register_at_fork(after_in_child=lambda: _leave_them_elsewhere(fd))


def dump_from_here() -> int:
    """Let the calling thread be interrupted by DUMP; returns the id the kernel knows it by.

    Not the main thread: a call that the body is in would be cut short, and the body may have blocked every signal.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {DUMP})
    return threading.get_native_id()


def _leave_them_elsewhere(fd: int) -> None:
    # The faults of a copy that a body forked are not those of its original. A copy without standard error has nowhere.
    with contextlib.suppress(OSError):
        os.dup2(_STANDARD_ERROR, fd, inheritable=False)
