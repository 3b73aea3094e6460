"""What dead children had counted: totals that only grow. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from worker_proc.board import BUCKETS, NAMES, OTHER, OUTCOMES, Slot, SlotWord


@dataclass(slots=True)
class Durations:
    """A histogram of run times: observations per bucket (the last above every bound), their sum and number."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum_us: int = 0
    count: int = 0

    def __add__(self, other: Durations) -> Durations:
        buckets = [ours + theirs for ours, theirs in zip(self.buckets, other.buckets, strict=True)]
        return Durations(buckets, self.sum_us + other.sum_us, self.count + other.count)


@dataclass(slots=True)
class Totals:
    """Counters per (queue, job name, outcome) and durations per queue."""

    jobs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    durations: dict[str, Durations] = field(default_factory=dict)

    def copy(self) -> Totals:
        """A copy to add to; what others look at stays as it is."""
        return Totals(self.jobs.copy(), dict(self.durations))

    def add(self, queue: str, counted: Iterable[tuple[str, str, int]], durations: Durations) -> None:
        """Add what one child had counted: (outcome, job name, number)."""
        for outcome, name, number in counted:
            self.jobs[queue, name, outcome] += number
        self.durations[queue] = self.durations.get(queue, Durations()) + durations


class Names:
    """Job names by their counter index on the board: append only, so an index never changes its meaning."""

    def __init__(self) -> None:
        self.table: tuple[str, ...] = ()

    def extend(self, names: Iterable[str]) -> None:
        """Take over names not yet known, as long as the board has counters for them."""
        new = [name for name in names if name not in self.table]
        self.table = (*self.table, *new)[:NAMES]


def read_counters(slot: Slot, names: Sequence[str]) -> list[tuple[str, str, int]]:
    """(outcome, job name, number) of every counter of a slot that is not 0."""
    return [
        (OUTCOMES[outcome], names[index] if index < len(names) else "other", number)
        for outcome, index, number in slot.counters()
        if index <= OTHER
    ]


def read_durations(slot: Slot) -> Durations:
    """The histogram of a slot."""
    return Durations(slot.buckets(), slot[SlotWord.DURATION_SUM_US], slot[SlotWord.DURATION_COUNT])
