"""Where a worker's next claim starts, so that claims do not walk the dead prefix of the index every time (pure)."""

from __future__ import annotations

from typing import Final

from stoker.drivers.holding import BEGINNING, Place

LEAST_S: Final = 0.05
MOST_S: Final = 2.0
# A walk may cost a twentieth of the time.
_SPARE: Final = 20
# Weight of the newest exchange in the average, and how much of a stall counts.
_NEWEST: Final = 0.2
_CLIP: Final = 4


class Mark:
    """The mark of one worker: claims continue after the last row claimed.

    What lands below it (more urgent jobs, rows that come back, commits that arrive late, rows another worker let go) is
    hidden until a *walk*: a claim from the beginning, and those after it that have yet to get where the mark was. They
    take rows in order, so a row is overtaken only before the next walk begins. That is max(50 ms, 20 x what the last
    walk cost), at most 2 s, after the last one began to be answered, and at once after a claim that found nothing.
    A walk visits a place once, and between walks no place is visited twice.

    Times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._place = self._top = BEGINNING
        self._active = False
        # The last walk: when its first claim was answered, how many exchanges it had, how long they took.
        self._walked_at = 0.0
        self._walks = 0
        self._walk_took = 0.0
        self._average: float | None = None

    @property
    def active(self) -> bool:
        """True while finding nothing would prove nothing: a claim that came back empty is to be repeated at once.

        Ask after `claimed`. It is False before the first claim and after a claim from the beginning that found nothing.
        """
        return self._active

    def start(self, now: float) -> Place:
        """The place after which the next claim looks; the beginning when a walk is due."""
        if now >= self._walked_at + self._interval():
            self._place = BEGINNING
        return self._place

    def claimed(self, last: Place | None, *, took: float, now: float) -> None:
        """Learn from the claim that `start` was called for: the last row in claim order, or None for no row.

        `took` is what the exchange lasted, settlements and commit included; what exceeds the average is the walk's.
        """
        began = self._place == BEGINNING
        if began:
            self._walked_at, self._walks, self._walk_took = now, 0, 0.0
        if self._place < self._top or began:
            self._walks += 1
            self._walk_took += took
        if last is None:
            self._active = not began
            self._place = self._top = BEGINNING
            return
        if not began:
            self._learn(took)
        self._active = True
        self._place = last
        self._top = max(self._top, last)

    def back(self, before: Place) -> None:
        """Rows from this place on were let go again: the next claim looks there."""
        priority, pos = before
        self._place = min(self._place, (priority, pos - 1))

    def _interval(self) -> float:
        cost = max(0.0, self._walk_took - self._walks * (self._average or 0.0))
        return min(MOST_S, max(LEAST_S, _SPARE * cost))

    def _learn(self, took: float) -> None:
        if self._average is None:
            self._average = took
        else:
            self._average += _NEWEST * (min(took, _CLIP * self._average) - self._average)
