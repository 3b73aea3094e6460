"""What a figure yields: samples of the product, samples of the floor, and what is read off them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.interrupts import interrupts


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One line of the report. `quantile` None means the median of rounds that were taken in pairs.

    `goal` is what is wanted of the ratio, or of the value where it has a unit; nothing checks it.
    """

    name: str
    what: str
    unit: str
    product: Sequence[float]
    floor: Sequence[float] = ()
    floor_is: str = ""
    goal: str = ""
    quantile: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The product's."""
        return self._read(self.product)

    @property
    def floor_value(self) -> float | None:
        """The floor's, where there is one."""
        return self._read(self.floor) if self.floor else None

    @property
    def ratio(self) -> float | None:
        """Product ÷ floor: the median of the pairs, so that a noisy minute counts against both."""
        if not self.floor:
            return None
        if self.quantile is None:
            return median(ours / bare for ours, bare in zip(self.product, self.floor, strict=True))
        return self._read(self.product) / self._read(self.floor)

    def _read(self, samples: Sequence[float]) -> float:
        return median(samples) if self.quantile is None else quantile(samples, self.quantile)


def quantile(samples: Sequence[float], at: float) -> float:
    """The nearest-rank quantile: a value that really occurred."""
    return sorted(samples)[max(0, math.ceil(at * len(samples)) - 1)]


def alternate(
    rounds: int, *, product: Callable[[], float], floor: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Measure both in turn, each first in every other round; returns the samples of the product and of the floor."""
    ours: list[float] = []
    bare: list[float] = []
    for at in range(rounds):
        pair = [(product, ours), (floor, bare)]
        for measure, samples in pair if at % 2 else reversed(pair):
            interrupts.check()
            samples.append(measure())
    return ours, bare
