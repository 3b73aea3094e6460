"""Proof on the same machine: the file lock every process of a boot holds is free, so all of them are dead."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def freed_lock(path: str, inode: str) -> Iterator[bool]:
    """Whether the lock file is there, is the very one, and nobody holds it; held by us within the block.

    False proves nothing.
    """
    fd = _take(path, inode)
    if fd is None:
        yield False
        return
    try:
        yield True
    finally:
        os.close(fd)


def remove_lock(path: str) -> None:
    """Remove a file that has served its purpose; within the block that found it free."""
    with suppress(OSError):
        Path(path).unlink()


def _take(path: str, inode: str) -> int | None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if f"{found.st_dev}:{found.st_ino}" == inode:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
    except OSError:
        pass
    os.close(fd)
    return None
