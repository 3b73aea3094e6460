"""The memory of a run: what was seen while it executed, and nothing else."""

from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from stoker.drivers.base import Settlement
from worker_proc import peaks
from worker_proc.peaks import EVERY_NS, Peaks, resident_bytes, tell_peak


def measured() -> Any:
    return SimpleNamespace(peak_rss=0)


def test_the_highest_sample_counts_for_every_run_that_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = iter([30, 90, 50])
    monkeypatch.setattr(peaks, "resident_bytes", lambda: next(samples))
    looks, first, second, third = Peaks(), measured(), measured(), measured()
    now = 100 * EVERY_NS
    looks.look(now, [])
    looks.look(now, [first])
    looks.look(now + EVERY_NS - 1, [first, third])
    looks.look(now + EVERY_NS, [first, second])
    looks.look(now + 2 * EVERY_NS, [first, second])
    assert (first.peak_rss, second.peak_rss, third.peak_rss) == (90, 90, 0)


@pytest.mark.parametrize(
    ("error", "peak", "told"),
    [({"type": "X"}, 7, {"type": "X", "peak_rss_bytes": 7}), ({"type": "X"}, 0, {"type": "X"})],
)
def test_a_run_without_a_sample_tells_none(error: dict[str, Any], peak: int, told: dict[str, Any]) -> None:
    settlement = Settlement(job_id=1, run_no=1, outcome="retried", error=error)
    tell_peak(settlement, SimpleNamespace(peak_rss=peak))
    assert settlement.error == told


def test_a_run_that_went_well_or_is_not_ours_has_no_error() -> None:
    done = Settlement(job_id=1, run_no=1, outcome="completed")
    tell_peak(done, SimpleNamespace(peak_rss=7))
    assert done.error is None
    tell_peak(None, SimpleNamespace(peak_rss=7))


def test_it_is_the_memory_others_see() -> None:
    assert abs(resident_bytes() - psutil.Process().memory_info().rss) < 16 << 20
