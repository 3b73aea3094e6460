"""What became of a worker's runs since its drain began."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.drivers.base import Settlement


@dataclass(slots=True)
class Tally:
    """Runs that ended one way or the other, and runs that will run again."""

    finished: int = 0
    interrupted: int = 0

    def count(self, settlement: Settlement) -> None:
        """Take one run into account."""
        if settlement.outcome == "interrupted":
            self.interrupted += 1
        else:
            self.finished += 1
