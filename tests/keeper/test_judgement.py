"""When an observer calls a host dead: its own clock, its own renewals, never anybody else's clock."""

import pytest

from stoker.settings import Settings
from worker_proc.host_lease import Windows
from worker_proc.judgement import Observer, SeenHost

S = 1_000_000_000


class Watch:
    """An observer that looks each second; `dead()` is the second at which a host was first judged dead."""

    def __init__(self, *, lease: float = 30.0) -> None:
        self.observer = Observer(Windows.of(Settings(lease=lease, kill_after=min(3.0, lease - 2.5))))
        self.now = 1000

    def look(self, renewals: int, *, locked: bool, renews: bool = True, answer_after: float = 0.0) -> bool:
        self.now += 1
        if renews:
            self.observer.renewed(self.now * S)
        host = SeenHost(5, renewals, locked, "other", "m", "/lock", "1:1")
        asked = self.now * S
        return bool(self.observer.judge([host], asked_at=asked, answered_at=asked + int(answer_after * S)))

    def seconds_until_dead(self, *, locked: bool, most: int = 60) -> int | None:
        return next((n for n in range(most) if self.look(1, locked=locked)), None)


@pytest.mark.parametrize(
    ("lease", "locked", "seconds"), [(30, False, 10), (30, True, 30), (60, True, 60), (8, False, 8), (8, True, 8)]
)
def test_how_long_a_host_may_stand_still(lease: float, locked: bool, seconds: int) -> None:
    assert Watch(lease=lease).seconds_until_dead(locked=locked, most=80) == seconds


def test_a_host_that_moves_lives_with_or_without_its_lock() -> None:
    watch = Watch()
    assert not any(watch.look(n, locked=False) for n in range(100))


def test_the_lock_alone_proves_nothing_and_its_loss_shortens_the_window() -> None:
    watch = Watch()
    assert not any(watch.look(1, locked=True) for _ in range(20))
    assert watch.look(1, locked=False), "20 s without a move are enough without a lock"


def test_the_window_starts_when_the_move_was_seen_not_when_it_was_asked_for() -> None:
    watch = Watch()
    watch.look(1, locked=False, answer_after=3.0)
    assert watch.seconds_until_dead(locked=False) == 12


def test_a_pause_of_the_observer_itself_starts_the_watch_anew() -> None:
    watch = Watch()
    assert not any(watch.look(1, locked=False) for _ in range(9))
    watch.now += 60
    assert watch.seconds_until_dead(locked=False) == 10


def test_an_observer_that_cannot_renew_judges_nobody() -> None:
    watch = Watch()
    watch.look(1, locked=False)
    assert not any(watch.look(1, locked=False, renews=False) for _ in range(60))


def test_short_hiccups_of_the_observer_do_not_matter() -> None:
    watch = Watch()
    seen = [watch.look(1, locked=False, renews=n % 3 == 0) for n in range(12)]
    assert seen.index(True) == 10


def test_a_host_that_left_and_a_new_one_are_not_confused() -> None:
    watch = Watch()
    for _ in range(9):
        watch.look(1, locked=False)
    watch.now += 1
    watch.observer.renewed(watch.now * S)
    assert watch.observer.judge([], asked_at=watch.now * S, answered_at=watch.now * S) == []
    assert watch.seconds_until_dead(locked=False) == 10
