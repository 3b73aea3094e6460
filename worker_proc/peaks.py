"""How much memory this process was seen to use while a body executed: for the record of a run that fails."""

from __future__ import annotations

import mmap
from collections.abc import Collection
from pathlib import Path
from typing import Final, Protocol

from stoker.drivers.base import Settlement

EVERY_NS: Final = 1_000_000_000

_STATM: Final = Path("/proc/self/statm")


class Measured(Protocol):
    """A run that keeps the highest sample, in bytes; 0 = none was taken."""

    peak_rss: int


class Peaks:
    """Takes a sample a second while anything executes. A shorter run may have none: nobody guesses.

    Control thread only.
    """

    def __init__(self) -> None:
        self._due = 0

    def look(self, now: int, executing: Collection[Measured]) -> None:
        """Take a sample if one is due; `now` is CLOCK_MONOTONIC ns."""
        if now < self._due or not executing:
            return
        self._due = now + EVERY_NS
        rss = resident_bytes()
        for run in executing:
            run.peak_rss = max(run.peak_rss, rss)


def tell_peak(settlement: Settlement | None, run: Measured) -> None:
    """Write the peak of a run that did not go well into its error."""
    if run.peak_rss and settlement is not None and settlement.error is not None:
        settlement.error["peak_rss_bytes"] = run.peak_rss


def resident_bytes() -> int:
    """The resident memory of this process."""
    return int(_STATM.read_text().split()[1]) * mmap.PAGESIZE
