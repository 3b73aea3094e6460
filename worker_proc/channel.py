"""One end of a control pipe: one message is one SEQPACKET packet, descriptors travel beside it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Final

from worker_proc.messages import AnyMessage, Message, decode, encode

# Larger than any packet: settings and name lists are the big ones.
PACKET_BYTES: Final = 256 * 1024
_MAX_FDS: Final = 250
# The kernel has no room for a message now, or too many descriptors are on their way: as when nobody reads.
_NO_ROOM: Final = (errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS)


class ChannelClosed(Exception):
    """The other end is gone."""


class Channel:
    """Sends and receives whole messages. Non-blocking ends raise BlockingIOError as sockets do."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends, both close-on-exec."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls.of(ours), cls.of(theirs)

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """Take over a descriptor that was passed to us."""
        return cls.of(socket.socket(fileno=fd))

    @classmethod
    def of(cls, sock: socket.socket) -> Channel:
        """Take over a SEQPACKET socket, with room for whole packets."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * PACKET_BYTES)
        return cls(sock)

    def fileno(self) -> int:
        """For selectors."""
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        """As for sockets. The flag belongs to the open description, each end has its own."""
        self._sock.setblocking(flag)

    def settimeout(self, seconds: float | None) -> None:
        """As for sockets: TimeoutError from send and receive."""
        self._sock.settimeout(seconds)

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send one message. Raises ChannelClosed when the other end is gone, BlockingIOError when there is no room."""
        packet = encode(message)
        try:
            if fds:
                socket.send_fds(self._sock, [packet], list(fds))
            else:
                self._sock.send(packet)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise BlockingIOError(*error.args) from error
            raise

    def receive(self) -> AnyMessage:
        """Receive one message; raises ChannelClosed at end of file."""
        return self.receive_with_fds(0)[0]

    def receive_with_fds(self, limit: int = _MAX_FDS) -> tuple[AnyMessage, list[int]]:
        """Receive one message and its descriptors, which are ours to close (close-on-exec is set)."""
        fds: list[int] = []
        try:
            if limit:
                packet, fds, _, _ = socket.recv_fds(self._sock, PACKET_BYTES, limit)
            else:
                packet = self._sock.recv(PACKET_BYTES)
        except ConnectionResetError as error:
            raise ChannelClosed from error
        if not packet:
            raise ChannelClosed
        for fd in fds:
            os.set_inheritable(fd, False)
        return decode(packet), fds

    def detach(self) -> int:
        """Give the descriptor away."""
        return self._sock.detach()

    def close(self) -> None:
        """Close this end."""
        self._sock.close()
