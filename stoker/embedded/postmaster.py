"""The server process of a data directory: its pid file, telling a live one from a leftover, ending one."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

PID_FILE = "postmaster.pid"
FAST_STOP = signal.SIGINT
IMMEDIATE_STOP = signal.SIGQUIT
# A fast stop ends every session and writes a checkpoint; an immediate one leaves recovery to the next start.
FAST_STOP_LIMIT = 60.0


@dataclass(frozen=True)
class Postmaster:
    """A live server of one data directory, as its pid file describes it."""

    pid: int
    port: int
    socket_dir: Path
    status: str

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"


def live_postmaster(data: Path) -> Postmaster | None:
    """The live server of exactly this directory; None for no file, a half-written one, a dead or a recycled pid."""
    try:
        lines = (data / PID_FILE).read_text().splitlines()
    except OSError:
        return None
    found = _parse(lines)
    return found if found and _serves(found.pid, data) else None


def pid_on_file(data: Path) -> int | None:
    """Whose pid the file holds, alive or not; None without a file or a number."""
    try:
        return int((data / PID_FILE).read_text().partition("\n")[0])
    except (OSError, ValueError):
        return None


def end_leftover(data: Path) -> None:
    """Stop the server of a killed guardian, if one is still alive."""
    if (found := live_postmaster(data)) is None:
        return
    import psutil

    try:
        process = psutil.Process(found.pid)
        process.send_signal(FAST_STOP)
        try:
            process.wait(FAST_STOP_LIMIT)
        except psutil.TimeoutExpired:
            process.send_signal(IMMEDIATE_STOP)
            process.wait()
    except psutil.NoSuchProcess:
        return


def take_over_pid_file(data: Path) -> None:
    """Put our own pid into a pid file left behind.

    PostgreSQL refuses to start when the pid in there is alive, whoever it belongs to now, except its parent's. The rest
    of the file stays: with it PostgreSQL makes sure that no backend of the dead server still uses the shared memory.
    """
    # Root writes here into a directory of the server's account: no symbolic link may lead it elsewhere.
    directory = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fd = os.open(PID_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return
    finally:
        os.close(directory)
    try:
        _, _, rest = os.pread(fd, 8192, 0).partition(b"\n")
        size = os.pwrite(fd, b"%d\n%s" % (os.getpid(), rest), 0)
        os.ftruncate(fd, size)
    finally:
        os.close(fd)


def _parse(lines: list[str]) -> Postmaster | None:
    """The lines: pid, data directory, start time, port, socket directory, address, shared memory, status."""
    if len(lines) < 5 or not lines[0].isdecimal() or not lines[3].isdecimal():
        return None
    status = lines[7].strip() if len(lines) > 7 else ""
    return Postmaster(pid=int(lines[0]), port=int(lines[3]), socket_dir=Path(lines[4]), status=status)


def _serves(pid: int, data: Path) -> bool:
    command = _command(pid)
    return bool(command) and Path(command[0]).name == "postgres" and command[1:3] == ["-D", str(data)]


def _command(pid: int) -> list[str]:
    if sys.platform == "linux":
        # What every start with a running server asks first: importing psutil takes longer than all the rest of it.
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="surrogateescape").split("\0")
        except OSError:
            return []
    import psutil

    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []
