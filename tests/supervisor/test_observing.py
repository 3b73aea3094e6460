"""What the supervisor sees of a process, and what a look at a child makes of it."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from supervisor import observing
from supervisor.observing import Process, look_at, read_process
from supervisor.records import Look
from tests.support import until
from worker_proc.board import Board, SlotWord

S = 1_000_000_000


@pytest.mark.parametrize(("state", "idle_s"), [("S", 2), ("R", 0)])
def test_who_is_runnable_and_gets_no_cpu_is_not_idle(monkeypatch: pytest.MonkeyPatch, state: str, idle_s: int) -> None:
    monkeypatch.setattr(observing, "read_process", lambda pid: Process(state, cpu_s=1.0, rss=1))
    board = Board.create()
    slot = board.add_slot(1)
    slot[SlotWord.BEAT] = S
    child: Any = SimpleNamespace(look=Look(), pid=4711, kill_rss=None)
    for now in (100, 101, 102):
        child.look = look_at(child, slot, now * S)
    assert child.look.process_at == 102 * S
    assert (child.look.process_at - child.look.idle_since) / S == idle_s
    del slot
    board.close()


def test_it_sees_what_others_see() -> None:
    seen, known = read_process(os.getpid()), psutil.Process()
    assert seen and seen.state == "R"
    times = known.cpu_times()
    assert abs(seen.cpu_s - times.user - times.system) < 1.0
    assert abs(seen.rss - known.memory_info().rss) < 16 << 20


def test_a_stopped_a_dead_and_an_unknown_process() -> None:
    # Its name has what might be taken for the end of one.
    process = subprocess.Popen(
        [sys.executable, "-c", "open('/proc/self/comm', 'w').write('a) Z (b'); input()"], stdin=subprocess.PIPE
    )
    try:
        until(lambda: (seen := read_process(process.pid)) and seen.state == "S" and seen.rss > 0)
        process.send_signal(signal.SIGSTOP)
        until(lambda: (seen := read_process(process.pid)) and seen.state == "T")
        process.kill()
        until(lambda: read_process(process.pid) is None)
    finally:
        process.kill()
        process.communicate()
    assert read_process(process.pid) is None


def test_memory_is_looked_at_often_while_something_runs_and_counts_for_that_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = iter([10, 70, 30, 20, 50])
    monkeypatch.setattr(observing, "read_process", lambda pid: Process("S", cpu_s=1.0, rss=next(seen)))
    board = Board.create()
    slot = board.add_slot(2)
    child: Any = SimpleNamespace(look=Look(), pid=4711, kill_rss=None)
    slot.fill_lane(0, 7, 1, 0)
    for tenths in (1000, 1005, 1010):
        child.look = look_at(child, slot, tenths * S // 10)
    assert (child.look.rss, child.look.peaks) == (30, {(7, 1): 70})
    slot.clear_lane(0)
    slot.fill_lane(1, 8, 3, 0)
    child.look = look_at(child, slot, 102 * S)
    assert child.look.peaks == {(8, 3): 20}, "what was seen before its time is not its own"
    slot.clear_lane(1)
    child.look = look_at(child, slot, 103 * S)
    assert child.look.rss == 20, "nobody looks at who does nothing"
    assert child.look.peaks == {(8, 3): 20}, "it may die of what a run left behind"
    child.kill_rss = 100
    child.look = look_at(child, slot, 104 * S)
    assert (child.look.rss, child.look.peaks) == (50, {})
    del slot
    board.close()


def test_a_run_that_begins_while_memory_is_read_has_no_part_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board.create()
    slot = board.add_slot(1)
    slot.fill_lane(0, 7, 1, 0)

    def next_run(pid: int) -> Process:
        slot.fill_lane(0, 8, 1, 0)
        return Process("R", cpu_s=1.0, rss=10)

    monkeypatch.setattr(observing, "read_process", next_run)
    child: Any = SimpleNamespace(look=Look(), pid=4711, kill_rss=None)
    assert look_at(child, slot, 100 * S).peaks == {}
    board.close()
