"""A channel that is never waited for: what does not fit is sent later."""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from msgspec import DecodeError

from stoker import logs
from worker_proc.channel import Channel, ChannelClosed
from worker_proc.messages import AnyMessage, Message

log = logs.get("supervisor")


class Wire:
    """The loop's end of a control pipe. Descriptors given to `send` are closed once they are on their way."""

    def __init__(self, channel: Channel, *, selector: selectors.BaseSelector, on_event: Callable[[], None]) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._selector = selector
        self._on_event = on_event
        self._waiting: deque[tuple[Message, Sequence[int]]] = deque()
        self.open = True
        selector.register(channel, selectors.EVENT_READ, self._ready)

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send now or as soon as there is room. A peer that is gone is noticed by its death, not here."""
        self._waiting.append((message, fds))
        self.flush()

    def flush(self) -> None:
        """Send what waits."""
        while self._waiting and self.open:
            message, fds = self._waiting[0]
            try:
                self._channel.send(message, fds)
            except BlockingIOError:
                break
            except ChannelClosed:
                pass
            self._waiting.popleft()
            _close_all(fds)
        if self.open:
            interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waiting else 0)
            self._selector.modify(self._channel, interest, self._ready)

    def messages(self) -> Iterator[AnyMessage]:
        """Everything that has arrived; the wire closes at end of file."""
        while self.open:
            try:
                yield self._channel.receive()
            except BlockingIOError:
                return
            except ChannelClosed:
                self.close()
            except DecodeError as error:
                # One child that talks nonsense must not end the supervision of the others.
                log.error("message.unreadable", error=str(error))

    def close(self) -> None:
        """Let go of it. Twice is fine."""
        if self.open:
            self.open = False
            self._selector.unregister(self._channel)
            self._channel.close()
            for _, fds in self._waiting:
                _close_all(fds)
            self._waiting.clear()

    def _ready(self) -> None:
        self.flush()
        # It may have been closed by what another wire said in the same look.
        if self.open:
            self._on_event()


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
