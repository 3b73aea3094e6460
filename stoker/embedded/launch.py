"""Starts a guardian as a process of its own, and reads what the server's log says about that start."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.embedded.order import Order
from stoker.embedded.paths import Layout

_SCRIPT = Path(__file__).with_name("boot.py")
_ROTATE_ABOVE = 10 * 1024 * 1024
_TAIL = 4000
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True)
class Started:
    """A guardian on its way: the pipe on which it says that the server is ready, and where its log begins."""

    says: int
    log_began_at: int


@contextlib.contextmanager
def start_guardian(layout: Layout, order: Order) -> Iterator[Started]:
    """Start the guardian of an order; it outlives this process. The pipe is ours until the block ends."""
    log = _open_log(layout.log)
    try:
        began_at = os.fstat(log).st_size
        process = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT), order.dump()],
            cwd="/",
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[order.lock_fd],
            start_new_session=True,
        )
    finally:
        os.close(log)
    assert process.stdout is not None
    with process.stdout as says:
        try:
            yield Started(says.fileno(), began_at)
        finally:
            process.wait()  # at once: the guardian detaches itself before it does anything


def log_since(log: Path, began_at: int) -> str:
    """The end of the log, nothing from before that offset."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(began_at, size - _TAIL))
        return file.read().decode(errors="replace").strip()


def _open_log(log: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        if log.lstat().st_size > _ROTATE_ABOVE:
            log.replace(log.with_name(f"{log.name}.old"))
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _environment() -> dict[str, str]:
    """What Python needs, and nothing else of the client's: no secrets, no notify socket."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("PYTHON")}
