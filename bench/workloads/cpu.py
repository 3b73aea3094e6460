"""Fixed pieces of pure-Python work per second through a queue with 2 workers; floor: two bare processes.

The ratio is the efficiency: what is left of two processors when a queue deals out the work. Between two pieces a worker
makes one round trip with a commit, so the shorter the piece, the more of it shows.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.app import compute
from bench.burning import turns_for
from bench.errors import BenchFailed
from bench.interrupts import interrupts
from bench.reading import Reading, alternate
from bench.rig import Rig, until

WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.1
WITH_GOAL_MS: Final = 25
_WALL: Final = "select extract(epoch from max(finished_at) - max(created_at))::float8 from stoker.finished"


def measure(rig: Rig) -> list[Reading]:
    """One reading per length of a job."""
    return [_measure(rig, ms) for ms in rig.scale.cpu_ms]


def _measure(rig: Rig, ms: int) -> Reading:
    turns, count = turns_for(ms / 1e3), max(4, round(2 * rig.scale.cpu_s * 1e3 / ms))
    ours, bare = alternate(
        rig.scale.rounds, product=partial(_product, rig, turns, count), floor=partial(_floor, rig, turns, count)
    )
    return Reading(
        name=f"cpu.{ms}",
        what=f"CPU-bound jobs of {ms} ms, 2 workers",
        unit="/s",
        product=ours,
        floor=bare,
        floor_is="2 bare loops",
        goal="≥ 0.97" if ms == WITH_GOAL_MS else "",
        details={"turns": turns, "jobs": count},
    )


def _product(rig: Rig, turns: int, count: int) -> float:
    rig.db.wipe()
    with rig.supervisor("default=2") as supervisor:
        supervisor.ready()
        compute.enqueue_many({"turns": turns} for _ in range(count))
        # Looking costs what the workers could use.
        with interrupts.waiting():
            time.sleep(rig.scale.cpu_s)
        until(lambda: not rig.db.one("select exists (select from stoker.jobs)"), within=WITHIN_S, every=LOOK_EVERY_S)
    if (done := rig.db.one("select count(*) from stoker.finished where state = 'done'")) != count:
        raise BenchFailed(f"{count} jobs were enqueued, and {done} finished")
    return float(count / rig.db.one(_WALL))


def _floor(rig: Rig, turns: int, count: int) -> float:
    """Each takes the next piece when it is done with one, as workers do."""
    fifo = rig.directory / "work"
    os.mkfifo(fifo)
    try:
        with ExitStack() as stack:
            tokens = os.open(fifo, os.O_RDWR)
            try:
                bare = [stack.enter_context(rig.bare("loops", fifo, turns)).ready() for _ in range(2)]
                os.write(tokens, b"." * count)
            finally:
                # Both have it open: they read what is in it, then its end.
                os.close(tokens)
            began = time.monotonic_ns()
            for process in bare:
                process.go()
            ended = max(process.hear() for process in bare)
    finally:
        fifo.unlink()
    return float(count / ((ended - began) / 1e9))
