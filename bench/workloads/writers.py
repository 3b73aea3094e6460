"""Eight processes that enqueue at once, with notifications and without; floor: eight that only insert.

A supervisor listens all the time and serves another queue, so that nobody runs what is written.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.reading import Reading, alternate
from bench.rig import Rig

WRITERS: Final = 8
WHATS: Final = {"notify": "notify on", "silent": "notify off"}


def measure(rig: Rig) -> list[Reading]:
    """A commit each."""
    rig.db.wipe()
    with rig.supervisor("other=1") as supervisor:
        supervisor.ready()
        return [_measure(rig, how) for how in WHATS]


def _measure(rig: Rig, how: str) -> Reading:
    ours, bare = alternate(rig.scale.rounds, product=partial(_rate, rig, how), floor=partial(_rate, rig, "raw"))
    return Reading(
        name=f"writers.{how}",
        what=f"enqueue + commit, {WRITERS} writers, {WHATS[how]}",
        unit="/s",
        product=ours,
        floor=bare,
        floor_is=f"raw INSERT + commit, {WRITERS} writers",
    )


def _rate(rig: Rig, how: str) -> float:
    with ExitStack() as stack:
        writers = [stack.enter_context(rig.bare("writer", rig.db.url, rig.scale.writes, how)) for _ in range(WRITERS)]
        for writer in writers:
            writer.ready()
        for writer in writers:
            writer.go()
        times = [writer.hear() for writer in writers]
    wall = max(ended for _, ended in times) - min(began for began, _ in times)
    return float(WRITERS * rig.scale.writes / (wall / 1e9))
