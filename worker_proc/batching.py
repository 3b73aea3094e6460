"""How many jobs to claim next, and which of them are short: about 20 ms of expected work in a batch (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

TARGET_S: Final = 0.020
# A row lock is turned into a lease after 20 ms: a name whose jobs may come near that is not short.
SHORT_S: Final = 0.005
# Jobs up to here are claimed while those before them run. Beside bodies that compute a round trip costs some 5 ms of
# processor time with cold caches, however few jobs it brings: in a long queue one is made for 200 ms of work.
AHEAD_S: Final = 0.125
AHEAD_WORK_S: Final = 0.200
# It is to be through when what is in hand is.
_TRIP_S: Final = 0.025
# Weight of the newest duration in the moving averages.
_NEWEST: Final = 0.2


class Batching:
    """Learns from durations. Grows at most twofold per batch, shrinks at once when a job runs long."""

    def __init__(self, *, cap: int) -> None:
        self._cap = cap
        self._average: float | None = None
        self._by_name: dict[str, float] = {}
        self._last = self._last_ahead = 1

    def next(self) -> int:
        """The size of the next batch, from 1 to the cap; 1 while nothing is known."""
        if self._average is None:
            return 1
        fitting = int(TARGET_S / max(self._average, 1e-6))
        self._last = max(1, min(fitting, self._last * 2, self._cap))
        return self._last

    def is_short(self, name: str) -> bool:
        """True for a name whose runs in this process took a few milliseconds at most, on average."""
        return self._by_name.get(name, TARGET_S) <= SHORT_S

    def ahead(self, name: str, *, behind: int = 0) -> int:
        """How many jobs to claim while one of this name runs, with so many in hand behind it.

        None while they last for a round trip, and none if the name's jobs are short, long or unknown. One, until a
        claim for as many as that brought them all: what waits in hand must not keep others idle.
        """
        expected = self._by_name.get(name, 0.0)
        if not SHORT_S < expected <= AHEAD_S or (behind and (behind + 1) * expected > _TRIP_S):
            return 0
        return max(1, min(int(AHEAD_WORK_S / expected), self._last_ahead))

    def came_ahead(self, *, full: bool) -> None:
        """Learn from a claim ahead whether more wait."""
        self._last_ahead = min(self._last_ahead * 2, self._cap) if full else 1

    def patience(self, name: str) -> float:
        """Seconds that jobs in hand may wait behind one of this name."""
        expected = self._by_name.get(name, 0.0)
        return max(TARGET_S, 2 * expected) if expected <= AHEAD_S else TARGET_S

    def leading(self, names: Iterable[str]) -> int:
        """How many of these, from the first, are short and fit into a batch together."""
        expected, count, by_name = 0.0, 0, self._by_name
        for name in names:
            seconds = by_name.get(name, TARGET_S)
            expected += seconds
            if expected > TARGET_S or seconds > SHORT_S:
                break
            count += 1
        return count

    def observe(self, name: str, seconds: float) -> None:
        """Learn from one body."""
        if seconds > TARGET_S:
            self._last = 0
        average = self._average
        self._average = seconds if average is None else average + _NEWEST * (seconds - average)
        average = self._by_name.get(name, seconds)
        self._by_name[name] = average + _NEWEST * (seconds - average)
