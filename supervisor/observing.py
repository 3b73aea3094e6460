"""Looks at a child: its words on the board each time, its process only when that may tell something new."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from supervisor.records import Child, Look
from worker_proc.board import RunKey, Slot, SlotWord

PROCESS_EVERY_NS: Final = 2_000_000_000
OFTEN_EVERY_NS: Final = 500_000_000
SILENT_NS: Final = 3_000_000_000

# Places in /proc/PID/stat after the command's name, see proc(5).
_STATE, _UTIME, _STIME, _RSS = 0, 11, 12, 21
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def look_at(child: Child, slot: Slot, now: int) -> Look:
    """A fresh look; what was not looked at again is kept from the last one."""
    look = replace(
        child.look,
        beat=slot[SlotWord.BEAT],
        runs=tuple(slot.executing()),
        runs_done=slot[SlotWord.DURATION_COUNT],
    )
    silent = bool(look.beat) and now - look.beat > SILENT_NS
    # Memory grows while something runs, and beyond the limit it may not grow for long.
    often = silent or look.runs or child.kill_rss
    due = now - look.process_at >= (OFTEN_EVERY_NS if often else PROCESS_EVERY_NS)
    return _with_process(look, child.pid, now, slot) if due and child.pid else look


def with_stack(look: Look, size: int, now: int) -> Look:
    """With the size of what the child has left of its stacks."""
    return look if size == look.stack else replace(look, stack=size, stack_at=now)


def _with_process(look: Look, pid: int, now: int, slot: Slot) -> Look:
    if (seen := read_process(pid)) is None:
        return look
    # Who could run and gets no CPU waits for a busy machine.
    idle = seen.cpu_s == look.cpu_s and seen.state != "R"
    return replace(
        look,
        process_at=now,
        stopped=seen.state in "Tt",
        blocked=seen.state == "D",
        cpu_s=seen.cpu_s,
        idle_since=look.idle_since if look.idle_since and idle else now,
        rss=seen.rss,
        peaks=_peaks(look, seen.rss, slot),
    )


def _peaks(look: Look, rss: int, slot: Slot) -> Mapping[RunKey, int]:
    """The sample counts for those runs that executed before it was taken and still do."""
    still = {run.key for run in slot.executing()}
    return {run.key: max(rss, look.peaks.get(run.key, 0)) for run in look.runs if run.key in still}


@dataclass(frozen=True, slots=True)
class Process:
    """What the system says of a process: its state's letter, CPU time in seconds, resident memory in bytes."""

    state: str
    cpu_s: float
    rss: int


def read_process(pid: int) -> Process | None:
    """Look at a process that was not reaped yet; None when it has ended.

    One file, and no library that takes longer to import than the supervisor may take to start.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(") ")[2].split()
    if fields[_STATE] in "ZX":
        return None
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    return Process(fields[_STATE], ticks * _TICK_S, int(fields[_RSS]) * mmap.PAGESIZE)
