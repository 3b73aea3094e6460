"""File locks that the kernel drops when their holder dies, however it dies."""

import enum
import fcntl
import os
from pathlib import Path
from types import TracebackType


class Lock:
    """A held lock. It lasts until `release()`, or until every process that inherited the descriptor is gone."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._held = True

    def release(self) -> None:
        """Let go; again is fine."""
        if self._held:
            self._held = False
            os.close(self.fd)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Holding(enum.Enum):
    """Who holds a lock file right now."""

    NOBODY = "nobody"
    SHARED = "shared"
    EXCLUSIVE = "exclusive"


def shared(path: Path) -> Lock:
    """Wait for a shared lock."""
    return _locked(path, fcntl.LOCK_SH)


def exclusive(path: Path) -> Lock:
    """Wait for an exclusive lock."""
    return _locked(path, fcntl.LOCK_EX)


def try_exclusive(path: Path) -> Lock | None:
    """An exclusive lock, or None when anybody holds the file."""
    try:
        return _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def holding(path: Path) -> Holding:
    """Look without keeping anything; a file that does not exist is held by nobody."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return Holding.NOBODY
    try:
        if _takes(fd, fcntl.LOCK_EX):
            return Holding.NOBODY
        return Holding.SHARED if _takes(fd, fcntl.LOCK_SH) else Holding.EXCLUSIVE
    finally:
        os.close(fd)


def _locked(path: Path, how: int) -> Lock:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, how)
    except BaseException:
        os.close(fd)
        raise
    return Lock(fd)


def _takes(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
