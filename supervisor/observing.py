"""Looks at a child: its words on the board each time, its process only when that may tell something new."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import psutil

from supervisor.records import Child, Look
from worker_proc.board import Slot, SlotWord

PROCESS_EVERY_NS: Final = 2_000_000_000
SILENT_EVERY_NS: Final = 500_000_000
SILENT_NS: Final = 3_000_000_000


def look_at(child: Child, slot: Slot, now: int) -> Look:
    """A fresh look; what was not looked at again is kept from the last one."""
    look = replace(
        child.look,
        beat=slot[SlotWord.BEAT],
        runs=tuple(slot.executing()),
        runs_done=slot[SlotWord.DURATION_COUNT],
    )
    silent = bool(look.beat) and now - look.beat > SILENT_NS
    due = now - look.process_at >= (SILENT_EVERY_NS if silent else PROCESS_EVERY_NS)
    return _with_process(look, child.pid, now) if due and child.pid else look


def _with_process(look: Look, pid: int, now: int) -> Look:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state, times, rss = process.status(), process.cpu_times(), process.memory_info().rss
    except (psutil.Error, OSError):
        return look
    cpu_s = times.user + times.system
    # Who could run and gets no CPU waits for a busy machine.
    idle = cpu_s == look.cpu_s and state != psutil.STATUS_RUNNING
    return replace(
        look,
        process_at=now,
        stopped=state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP),
        blocked=state == psutil.STATUS_DISK_SLEEP,
        cpu_s=cpu_s,
        idle_since=look.idle_since if look.idle_since and idle else now,
        rss=rss,
    )
