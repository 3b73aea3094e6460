"""Other processes that use an embedded server, and what can be seen of the server from outside."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from stoker.embedded.paths import Layout

# Acquires, prints its URL, and keeps its share until its input ends.
HOLD = """
import sys
from pathlib import Path
from stoker.embedded import acquire
server = acquire(Path(sys.argv[1]), settings={"fsync": "off"})
print(server.url, flush=True)
sys.stdin.read()
server.close()
"""
# The same, but what keeps the share is another program that this process became.
EXEC = """
import os, sys
from pathlib import Path
from stoker.embedded import acquire
server = acquire(Path(sys.argv[1]), settings={"fsync": "off"})
print(server.url, flush=True)
after = "import os, subprocess, sys; fd = int(sys.argv[1]); os.set_inheritable(fd, False); " \\
        "print(os.get_inheritable(fd), flush=True); sys.stdin.read(); os.close(fd); print('closed', flush=True); " \\
        "sys.stdin.close(); import time; time.sleep(60)"
os.execv(sys.executable, [sys.executable, "-c", after, str(server.keep_over_exec())])
"""


class OtherUser:
    """A process with a share in the server of a root directory."""

    def __init__(self, root: Path, *, code: str = HOLD, python: str = sys.executable, **popen: Any) -> None:
        self.process = subprocess.Popen(
            [python, "-c", code, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **popen,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def url(self) -> str:
        """Waits until it has its share."""
        return self.line()

    def line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline().strip()
        assert line, f"the other user ended with {self.process.wait()}"
        return line

    def leave(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def query(url: str, text: str) -> Any:
    """The first value of the first row."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        row = connection.execute(text.encode()).fetchone()
    return row[0] if row else None


def execute(url: str, text: str) -> None:
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        connection.execute(text.encode())


def postmaster_pid(root: Path) -> int:
    return int((Layout(root).data / "postmaster.pid").read_text().splitlines()[0])


def guardian_pid(root: Path) -> int | None:
    with suppress(FileNotFoundError, ValueError):
        return int(Layout(root).guardian_lock.read_text())
    return None


def processes_of(root: Path) -> list[str]:
    """Every process but this one that works in, names, or has open something below `root`."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with suppress(psutil.Error):
            traces = [process.cwd(), *process.cmdline(), *(file.path for file in process.open_files())]
            if process.status() != psutil.STATUS_ZOMBIE and any(str(root) in trace for trace in traces):
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found
