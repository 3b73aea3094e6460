"""Figures of repeated trials: told at the end of the run, and held to what is promised where all of them were made."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.support import FULL_SCALE

_PROPERTY = "figure"


class Figures:
    """What one test measured."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def tell(self, what: str, facts: object) -> None:
        """Have it printed at the end of the run."""
        self._record(_PROPERTY, f"{what}: {facts}")

    def seconds(self, what: str, took: Sequence[float], *, median: float | None = None, most: float) -> None:
        """Tell how long it took. All trials keep the bounds; of a sample of several, beside other tests, one does."""
        middle, longest = statistics.median(took), max(took)
        self.tell(what, f"{len(took)} times, median {middle:.3f} s, longest {longest:.3f} s")
        if FULL_SCALE:
            assert longest <= most, sorted(took)
            assert median is None or middle <= median, sorted(took)
        assert len(took) == 1 or min(took) <= most, sorted(took)


def told(reports: Iterable[Any]) -> list[str]:
    """The figures of a whole run."""
    properties = [
        (report.nodeid, value)
        for report in reports
        if isinstance(report, pytest.TestReport)
        for name, value in report.user_properties
        if name == _PROPERTY
    ]
    return [str(value) for _, value in dict.fromkeys(properties)]
