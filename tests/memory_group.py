"""A control group of limited memory that processes of a test may be put into."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import until

# v1 with a memory hierarchy of its own, or v2.
_ROOTS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.oom_control"),
    (Path("/sys/fs/cgroup"), "memory.max", "memory.events"),
)


@contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """Make one whose processes may use so many bytes together; the test is skipped where nobody may make any."""
    group = _make(limit)
    try:
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def _make(limit: int) -> Path:
    for root, limits, events in _ROOTS:
        group = root / f"stoker-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limits).write_text(str(limit))
            if "oom_kill " in (group / events).read_text():
                return group
        except OSError:
            pass
        group.rmdir()
    pytest.skip("no control group of limited memory can be made here")
