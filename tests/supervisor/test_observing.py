"""What a look at a child's process makes of its state and its CPU time."""

import contextlib
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from supervisor.observing import look_at
from supervisor.records import Look
from worker_proc.board import Board, SlotWord

S = 1_000_000_000


class FakeProcess:
    """One that never used more than a second of CPU."""

    def __init__(self, state: str) -> None:
        self.status = lambda: state
        self.cpu_times = lambda: SimpleNamespace(user=1.0, system=0.0)
        self.memory_info = lambda: SimpleNamespace(rss=1)
        self.oneshot = contextlib.nullcontext


@pytest.mark.parametrize(("state", "idle_s"), [(psutil.STATUS_SLEEPING, 2), (psutil.STATUS_RUNNING, 0)])
def test_who_is_runnable_and_gets_no_cpu_is_not_idle(monkeypatch: pytest.MonkeyPatch, state: str, idle_s: int) -> None:
    monkeypatch.setattr(psutil, "Process", lambda pid: FakeProcess(state))
    board = Board.create()
    slot = board.add_slot(1)
    slot[SlotWord.BEAT] = S
    child: Any = SimpleNamespace(look=Look(), pid=4711)
    for now in (100, 101, 102):
        child.look = look_at(child, slot, now * S)
    assert (child.look.process_at - child.look.idle_since) / S == idle_s
    del slot
    board.close()
