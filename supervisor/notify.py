"""Tells systemd how the service is: sd_notify datagrams, sent by the supervisor only."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping

from supervisor.launching import SERVICE_MANAGER


class Notifier:
    """Sends to the socket of the environment, whose variables it removes so that no child finds them.

    Without such a socket everything is a no-op. A service manager that does not read never holds us up.
    """

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        address, usec, pid = (environ.pop(name, "") for name in SERVICE_MANAGER)
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        if self._socket:
            self._socket.setblocking(False)
        ours = usec.isdigit() and pid in ("", str(os.getpid()))
        self._watchdog_ns = int(usec) * 1000 // 2 if ours else 0
        self._watchdog_at = 0
        self._status = ""
        self._extended_at = 0

    def ready(self) -> None:
        """Every slot was ready for the first time, or a reload is over."""
        self._send(READY=1, MAINPID=os.getpid())

    def stopping(self) -> None:
        """The drain began."""
        self._send(STOPPING=1)

    def reloading(self, now: int) -> None:
        """A reload began."""
        self._send(RELOADING=1, MONOTONIC_USEC=now // 1000)

    def status(self, text: str) -> None:
        """One line for `systemctl status`, sent when it changed."""
        if text != self._status:
            self._status = text
            self._send(STATUS=" ".join(text.split()))

    def watchdog(self, now: int) -> None:
        """The loop turns; sent twice per watchdog interval."""
        if self._watchdog_ns and now >= self._watchdog_at:
            self._watchdog_at = now + self._watchdog_ns
            self._send(WATCHDOG=1)

    def extend(self, now: int, *, by_s: float) -> None:
        """A stop without a deadline takes its time; the manager's own is put off, again and again."""
        if now >= self._extended_at:
            self._extended_at = now + int(by_s / 3 * 1e9)
            self._send(EXTEND_TIMEOUT_USEC=int(by_s * 1e6))

    def next_look(self) -> int | None:
        """When the watchdog is due."""
        return self._watchdog_at if self._watchdog_ns else None

    def close(self) -> None:
        """Nothing more is sent."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def _send(self, **words: object) -> None:
        if self._socket:
            packet = "\n".join(f"{key}={value}" for key, value in words.items()).encode()
            with contextlib.suppress(OSError):
                self._socket.sendto(packet, self._address)
