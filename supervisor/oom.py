"""Whether the kernel's OOM killer took a process: by the counter of our control group."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final

from stoker.settings.cgroups import read

# The kernel counts first; a process with much memory takes its time to end.
REMEMBERED_NS: Final = 5_000_000_000


class OomWatch:
    """Counts the kills of the last 5 s, each for one death. `events` has a line `oom_kill N`, None: there is none.

    Times are CLOCK_MONOTONIC ns.
    """

    def __init__(self, events: Path | None) -> None:
        self._events = events
        self._counted = self._count()
        self._unclaimed: deque[int] = deque()

    def look(self, now: int) -> None:
        """See whether the counter has grown."""
        counted = self._count()
        self._unclaimed.extend([now] * (counted - self._counted))
        self._counted = counted
        while self._unclaimed and now - self._unclaimed[0] > REMEMBERED_NS:
            self._unclaimed.popleft()

    def claim(self, now: int) -> bool:
        """Whether a kill of late can have been the one of a process that died now; it explains no other death."""
        self.look(now)
        if not self._unclaimed:
            return False
        self._unclaimed.popleft()
        return True

    def _count(self) -> int:
        words = read(self._events).split() if self._events else []
        numbers = dict(zip(words[::2], words[1::2], strict=False))
        number = numbers.get("oom_kill", "0")
        return int(number) if number.isdigit() else 0
