"""Duties run when due, and the trouble of one is not the trouble of the others."""

import math
import time

import pytest
from psycopg.errors import ReadOnlySqlTransaction

from worker_proc.link import LinkDown
from worker_proc.rota import Rota


class Counting:
    """Runs each time it is asked, and fails as often as it is told."""

    def __init__(self, name: str, *, fails: int = 0, error: Exception | None = None) -> None:
        self.name = name
        self.runs = 0
        self.due_at = 0.0
        self._fails = fails
        self._error = error or ValueError("poison row")

    def run(self) -> None:
        self.runs += 1
        if self.runs <= self._fails:
            raise self._error


def test_a_poison_row_in_one_duty_stops_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    before, bad, after = Counting("before"), Counting("bad", fails=99), Counting("after")
    rota = Rota([before, bad, after], is_up=lambda: True, longest_pause=30)
    for _ in range(5):
        rota.run_due()
    assert (before.runs, bad.runs, after.runs) == (5, 1, 5)
    assert "bad" in caplog.text and "poison row" in caplog.text


def test_a_failing_duty_is_tried_again_ever_later_and_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    bad = Counting("bad", fails=12)
    rota = Rota([bad], is_up=lambda: True, longest_pause=30)
    pauses = []
    for _ in range(12):
        rota.run_due()
        pauses.append(rota.next_due() - now)
        now = rota.next_due()
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert pauses[-1] == 30
    rota.run_due()
    assert bad.runs == 13 and rota.next_due() == 0.0, "one success forgets the failures"


def test_what_is_due_in_a_moment_is_done_with_what_is_due_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now, first, soon, later = 1000.0, Counting("first"), Counting("soon"), Counting("later")
    monkeypatch.setattr(time, "monotonic", lambda: now)
    rota = Rota([first, soon, later], is_up=lambda: True, longest_pause=30)
    first.due_at, soon.due_at, later.due_at = now + 0.01, now + 0.02, now + 0.2
    rota.run_due()
    assert (first.runs, soon.runs, later.runs) == (0, 0, 0), "nothing is due yet"
    now += 0.01
    rota.run_due()
    assert (first.runs, soon.runs, later.runs) == (1, 1, 0)


def test_a_broken_connection_is_everybodys_trouble() -> None:
    rota = Rota([Counting("bad", fails=1)], is_up=lambda: False, longest_pause=30)
    with pytest.raises(LinkDown):
        rota.run_due()


def test_a_server_that_turned_read_only_is_left() -> None:
    rota = Rota([Counting("bad", fails=1, error=ReadOnlySqlTransaction())], is_up=lambda: True, longest_pause=30)
    with pytest.raises(LinkDown):
        rota.run_due()


def test_endless_trouble_is_logged_ever_less_often(caplog: pytest.LogCaptureFixture) -> None:
    rota = Rota([Counting("bad", fails=99)], is_up=lambda: True, longest_pause=0)
    for _ in range(40):
        rota.run_due()
    assert len(caplog.records) == 6


def test_a_link_that_is_down_is_not_a_failure_of_the_duty() -> None:
    duty = Counting("duty", fails=1, error=LinkDown("closed"))
    rota = Rota([duty], is_up=lambda: True, longest_pause=30)
    with pytest.raises(LinkDown):
        rota.run_due()
    rota.run_due()
    assert duty.runs == 2


def test_what_is_not_due_does_not_run() -> None:
    later = Counting("later")
    later.due_at = math.inf
    rota = Rota([later], is_up=lambda: True, longest_pause=30)
    rota.run_due()
    assert later.runs == 0
