"""The file lock every process of a boot holds: free means that all of them are dead."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import Final

_LEFTOVER_S: Final = 24 * 3600.0


class HostLock:
    """One locked file with a random name; children inherit the descriptor, what their jobs exec does not."""

    def __init__(self, directory: Path) -> None:
        _sweep(directory)
        self.path = directory / f"host-{secrets.token_hex(8)}.lock"
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def close(self, *, lease_ended: bool) -> None:
        """End of a boot. The free lock stays as a proof for as long as the host's lease is not ended."""
        if lease_ended:
            self.path.unlink(missing_ok=True)
        os.close(self.fd)


def _sweep(directory: Path) -> None:
    # A free lock is the proof that a boot is over, so the file stays for a day in case nobody has looked yet.
    for path in directory.glob("host-*.lock"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFTOVER_S:
                _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(fd)
