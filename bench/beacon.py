"""How a job or a bare process tells the benchmark that something happened: a datagram with its monotonic time.

CLOCK_MONOTONIC is the same for all processes of a machine. The address is abstract: no file is left behind.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from typing import Any

from bench.errors import BenchFailed
from bench.interrupts import interrupts


def report(to: str, **facts: Any) -> None:
    """Say that it is now; `to` is the name of a Beacon."""
    facts = {"at": time.monotonic_ns(), "pid": os.getpid(), **facts}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(json.dumps(facts).encode(), f"\0{to}")


class Beacon:
    """Receives datagrams. One reader."""

    def __init__(self) -> None:
        self.name = f"stoker-bench-{uuid.uuid4().hex}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self.name}")

    def receive(self, within: float) -> bytes:
        """The next datagram. Raises BenchFailed when none comes in that many seconds."""
        self._socket.settimeout(within)
        try:
            with interrupts.waiting():
                return self._socket.recv(65_536)
        except TimeoutError:
            raise BenchFailed(f"nothing was heard for {within:g} s") from None

    def facts(self, within: float = 30.0) -> dict[str, Any]:
        """What the next `report` said."""
        facts: dict[str, Any] = json.loads(self.receive(within))
        return facts

    def close(self) -> None:
        """Let go of the address."""
        self._socket.close()
