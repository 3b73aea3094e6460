"""What the keeper has to tell the supervisor, kept while its end of the pipe is full."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from worker_proc.control import Control
from worker_proc.messages import Message

RETRY_S: Final = 0.02


class Outgoing:
    """Sends in order; nothing is dropped and nothing blocks."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._queue: deque[Message] = deque()

    @property
    def clear(self) -> bool:
        """True when everything said so far is sent."""
        return not self._queue

    def tell(self, message: Message) -> None:
        """Send now, or as soon as the pipe takes it. Main thread only."""
        self._queue.append(message)
        self.flush()

    def flush(self) -> float:
        """Send what the pipe takes; returns the seconds until it is worth trying again."""
        while self._queue:
            try:
                self._control.send(self._queue[0])
            except BlockingIOError:
                return RETRY_S
            self._queue.popleft()
        return math.inf
