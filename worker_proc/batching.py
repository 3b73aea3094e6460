"""How many jobs to claim next: about 20 ms of expected work, 1 while nothing is known (pure)."""

from __future__ import annotations

from typing import Final

TARGET_S: Final = 0.020
# Weight of the newest duration in the moving average.
_NEWEST: Final = 0.2


class Batching:
    """Learns from durations. Grows at most twofold per batch, shrinks at once when a job runs long."""

    def __init__(self, *, cap: int) -> None:
        self._cap = cap
        self._average: float | None = None
        self._last = 1

    def next(self) -> int:
        """The size of the next batch, from 1 to the cap."""
        if self._average is None:
            return 1
        fitting = int(TARGET_S / max(self._average, 1e-6))
        self._last = max(1, min(fitting, self._last * 2, self._cap))
        return self._last

    def observe(self, seconds: float) -> None:
        """Learn from one body."""
        if self._average is None or seconds > TARGET_S:
            self._average = seconds
            self._last = 1 if seconds > TARGET_S else self._last
        else:
            self._average += _NEWEST * (seconds - self._average)
