"""Starts fork servers. The first one starts before the supervisor is imported, so that the two import side by side.

Therefore this module must not import anything that takes time.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

COMMAND: Final = (sys.executable, "-m", "supervisor.fork_server")

# What `stoker run` and the service manager tell the supervisor through its environment and nobody else.
OVERRIDES: Final = "STOKER_RUN_OVERRIDES"
EMBEDDED_LOCK: Final = "STOKER_EMBEDDED_LOCK_FD"
SERVICE_MANAGER: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_PRIVATE: Final = frozenset((OVERRIDES, EMBEDDED_LOCK, *SERVICE_MANAGER))


class Launched:
    """A fork server that waits for `StartServer` and ends when the socket to it is closed."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self._process = process
        self._sock = sock
        self._taken = False

    def take(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Process and socket, which are the caller's from here on."""
        self._taken = True
        return self._process, self._sock

    def end(self) -> None:
        """Nobody has taken it, and nobody will: end it. Does nothing once it was taken."""
        if not self._taken:
            self._sock.close()
            self._process.kill()
            self._process.wait()


def launch(command: Sequence[str] = COMMAND) -> Launched:
    """Exec a fork server. Raises OSError when the system has no room for it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    interpreter, *rest = command
    with theirs:
        try:
            process = subprocess.Popen(
                [interpreter, *(f"-W{option}" for option in sys.warnoptions), *rest, str(theirs.fileno())],
                env={name: value for name, value in os.environ.items() if name not in _PRIVATE},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # A session of its own: what happens at the supervisor's terminal must not reach children with jobs.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return Launched(process, ours)


def launch_early() -> Launched | None:
    """The first fork server, where nothing speaks against starting one before anything has been looked at."""
    if sys.platform != "linux":
        return None
    try:
        for standard in (0, 1, 2):
            # A socket that got the number of a closed one would be printed to.
            os.fstat(standard)
        return launch()
    except OSError:
        # It is started again when it is needed, and then its failure is somebody's to report.
        return None
