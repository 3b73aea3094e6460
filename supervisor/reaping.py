"""Reaps ended children; a child's process group goes before it does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from supervisor.hands import kill_group
from supervisor.records import Exit


def collect(is_leader: Callable[[int], bool]) -> Iterator[Exit]:
    """Reap whoever has ended: our children and adopted strangers alike.

    While a dead leader is not reaped its pid names its group and nobody else's, so that is when the group is killed.
    """
    while True:
        try:
            seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if seen is None:
            return
        if is_leader(seen.si_pid):
            kill_group(seen.si_pid)
        pid, status = os.waitpid(seen.si_pid, 0)
        code = os.waitstatus_to_exitcode(status)
        yield Exit(pid, code if code >= 0 else None, -code if code < 0 else None)
