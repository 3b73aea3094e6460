"""`ctx.extend`: what it takes, what it asks of whatever runs the body, and what inline runs make of it."""

from datetime import timedelta
from typing import Any

import pytest

from stoker import Ctx, RunSignal, job
from stoker.enqueue_options import Duration
from stoker.errors import Aborted, ExtensionInvalid
from stoker.testing import memory, run_jobs
from tests.library.runs import claimed


class Recorded:
    """Writes down what a context asks for."""

    def __init__(self, *, ours: bool = True) -> None:
        self.signal = RunSignal()
        self.asked: list[Any] = []
        self._ours = ours

    def time_left(self) -> float | None:
        return None

    def lease(self) -> None:
        self.asked.append("lease")
        if not self._ours:
            raise Aborted(reason="lease_lost")

    def extend(self, seconds: float) -> None:
        self.asked.append(seconds)


@pytest.mark.parametrize(
    ("given", "seconds"), [(30, 30), (0.5, 0.5), ("5m", 300), (timedelta(minutes=1), 60)], ids=repr
)
def test_a_row_lock_becomes_a_lease_before_the_deadline_moves(given: Duration, seconds: float) -> None:
    recorded = Recorded()
    Ctx(claimed=claimed(), run=recorded).extend(given)
    assert recorded.asked == ["lease", seconds]


@pytest.mark.parametrize("given", [0, -1, 1e-9, float("nan"), float("inf"), 1e12, "soon", None, True, [5]], ids=repr)
def test_nonsense_is_refused_and_changes_nothing(given: Any) -> None:
    recorded = Recorded()
    with pytest.raises(ExtensionInvalid, match=r"Job 41 \(work\) cannot have its timeout moved"):
        Ctx(claimed=claimed(), run=recorded).extend(given)
    assert recorded.asked == []


def test_a_job_that_is_not_ours_any_more_gets_no_extension() -> None:
    recorded = Recorded(ours=False)
    with pytest.raises(Aborted):
        Ctx(claimed=claimed(), run=recorded).extend(30)
    assert recorded.asked == ["lease"]


def test_inline_runs_have_the_time_they_ask_for() -> None:
    with memory():
        left: list[float | None] = []

        @job(timeout=5)
        def longer(payload: dict[str, Any], ctx: Ctx) -> None:
            left.append(ctx.time_left())
            ctx.extend(500)
            left.append(ctx.time_left())
            ctx.extend(0.5)
            left.append(ctx.time_left())

        @job
        async def unlimited(payload: dict[str, Any], ctx: Ctx) -> None:
            left.append(ctx.time_left())
            ctx.extend("1h")
            left.append(ctx.time_left())

        longer.enqueue()
        unlimited.enqueue()
        assert [ran.outcome for ran in run_jobs()] == ["completed", "completed"]
        first, long, short, none, hour = left
        assert first is not None and long is not None and short is not None and hour is not None
        assert first <= 5 < long <= 500
        assert short <= 0.5
        assert none is None
        assert 5 < hour <= 3600
