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
from bench.burning import LONG, SHORT
from bench.errors import BenchFailed
from bench.reading import Reading, alternate
from bench.rig import Rig, until

WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.1
_WALL: Final = "select extract(epoch from max(finished_at) - min(created_at))::float8 from stoker.finished"


def measure(rig: Rig) -> list[Reading]:
    """Pieces of about a tenth and of about a hundredth of a second."""
    return [
        _measure(rig, "cpu", "CPU-bound jobs of ~0.1 s, 2 workers", LONG, rig.scale.long_loops),
        _measure(rig, "cpu.short", "CPU-bound jobs of ~10 ms, 2 workers", SHORT, rig.scale.short_loops),
    ]


def _measure(rig: Rig, name: str, what: str, turns: int, count: int) -> Reading:
    ours, bare = alternate(
        rig.scale.cpu_rounds, product=partial(_product, rig, turns, count), floor=partial(_floor, rig, turns, count)
    )
    return Reading(name=name, what=what, unit="/s", product=ours, floor=bare, details={"turns": turns, "jobs": count})


def _product(rig: Rig, turns: int, count: int) -> float:
    rig.db.wipe()
    with rig.supervisor("default=2") as supervisor:
        supervisor.ready()
        compute.enqueue_many({"turns": turns} for _ in range(count))
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
