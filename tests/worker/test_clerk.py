"""When a clerk lets go of what its lane has in hand, on clocks that the test reads."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.drivers.base import Claimed, Holder
from worker_proc.batching import Batching
from worker_proc.board import Word
from worker_proc.clerk import LONG_NS, OLD_AHEAD_NS, OLD_NS, Clerk
from worker_proc.desk import Claims
from worker_proc.hand import Hand

HOLDER = Holder(7, 1)


class Words(SimpleNamespace):
    """A board of nothing but words."""

    def __getitem__(self, word: Word) -> int:
        return int(self.words[word])


class Scene:
    """A lane whose desk and main thread are the test's."""

    def __init__(self, seconds: float) -> None:
        board: Any = Words(words=[0] * 16, lease_trusted=lambda now: True)
        board.words[Word.HOST_ID] = HOLDER.host
        control: Any = SimpleNamespace(stop_reason="", board=board, look_soon=lambda: None)
        self.let_go: list[Claimed] = []
        self.ahead: list[Claimed] = []
        desk: Any = SimpleNamespace(
            pending=0,
            holds_locks=False,
            let_go=self.let_go.extend,
            exchange=lambda room, holder, ahead: Claims(self.ahead, locked=False, full=True),
        )
        self.runs: Any = SimpleNamespace(executing=())
        runs: Any = self.runs
        self.hand = Hand(control, desk)
        self.hand.holder = HOLDER
        self.batching = Batching(cap=500)
        self.batching.observe("job", seconds)
        self.clerk = Clerk(control, desk=desk, runs=runs, hand=self.hand, batching=self.batching)

    def begin(self, *, at: int) -> None:
        """Main is inside a body that began then."""
        self.runs.executing = (SimpleNamespace(claimed=job(0), started=at),)

    @property
    def called(self) -> bool:
        """Whether the clerk was called since this was asked last."""
        called = self.clerk._called.is_set()
        self.clerk._called.clear()
        return called


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two lines of a test no time passes, however long the machine takes."""
    moment = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: moment)


def job(number: int) -> Claimed:
    return Claimed(number, 1, "default", "job", "{}", 1, 20, 0, None, 0, 0, number)


def test_what_waits_behind_a_long_head_is_let_go() -> None:
    scene = Scene(0.001)
    scene.clerk.batch_begins(watch=True)
    scene.hand.reserved.append(job(1))
    now = time.monotonic_ns()
    scene.begin(at=now)
    assert scene.clerk.look(now + LONG_NS - 1) == now + LONG_NS and not scene.called
    scene.clerk.look(now + LONG_NS)
    assert scene.called


def test_a_batch_that_became_slower_is_let_go() -> None:
    scene = Scene(0.001)
    scene.clerk.batch_begins(watch=True)
    scene.hand.reserved.append(job(1))
    late = time.monotonic_ns() + OLD_NS
    scene.begin(at=late - 1)
    scene.clerk.look(late)
    assert scene.called


@pytest.mark.parametrize("ms", [10, 25, 60])
def test_what_was_claimed_ahead_stays_for_as_long_as_its_jobs_should_take(ms: int) -> None:
    scene = Scene(ms / 1e3)
    scene.clerk.batch_begins(watch=False)
    scene.begin(at=time.monotonic_ns())
    scene.ahead = [job(1), job(2)]
    scene.clerk._claim_ahead()
    assert [one.id for one in scene.hand.reserved] == [1, 2]
    # The next body has begun, in time, long after the batch did.
    later = time.monotonic_ns() + 2 * OLD_NS
    scene.begin(at=later - LONG_NS // 2)
    assert scene.clerk.look(later) > later and not scene.called
    # But for ever it is not.
    latest = time.monotonic_ns() + OLD_AHEAD_NS
    scene.begin(at=latest - 1)
    scene.clerk.look(latest)
    assert scene.called


def test_what_was_claimed_ahead_goes_back_when_nothing_may_start_any_more() -> None:
    scene = Scene(0.025)
    scene.begin(at=time.monotonic_ns())
    scene.ahead = [job(1)]
    scene.hand.locked = True
    scene.clerk._claim_ahead()
    assert scene.let_go == [job(1)] and not scene.hand.reserved


def test_it_is_not_called_again_while_it_claims() -> None:
    scene = Scene(0.010)
    scene.clerk.body_begins("job")
    assert scene.called and scene.clerk.busy()
    scene.clerk.body_begins("job")
    assert not scene.called
