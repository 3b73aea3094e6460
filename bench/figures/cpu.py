"""Fixed pieces of pure-Python work per second through a queue with 2 workers; floor: two bare processes.

The ratio is the efficiency: what is left of two processors when a queue deals out the work.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import Final

from bench.app import compute
from bench.errors import BenchFailed
from bench.reading import Reading, alternate
from bench.rig import Rig, until

WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.1
_WALL: Final = "select extract(epoch from max(finished_at) - min(created_at))::float8 from stoker.finished"


def measure(rig: Rig) -> list[Reading]:
    """Both take the next piece when they are done with one."""
    ours, bare = alternate(rig.scale.cpu_rounds, product=lambda: _product(rig), floor=lambda: _floor(rig))
    return [Reading(name="cpu", what="CPU-bound jobs, 2 workers", unit="/s", product=ours, floor=bare)]


def _product(rig: Rig) -> float:
    rig.db.wipe()
    with rig.supervisor("default=2") as supervisor:
        supervisor.ready()
        compute.enqueue_many({} for _ in range(rig.scale.loops))
        until(lambda: not rig.db.one("select exists (select from stoker.jobs)"), within=WITHIN_S, every=LOOK_EVERY_S)
    if (done := rig.db.one("select count(*) from stoker.finished where state = 'done'")) != rig.scale.loops:
        raise BenchFailed(f"{rig.scale.loops} jobs were enqueued, and {done} finished")
    return float(rig.scale.loops / rig.db.one(_WALL))


def _floor(rig: Rig) -> float:
    fifo = rig.directory / "work"
    os.mkfifo(fifo)
    try:
        with ExitStack() as stack:
            tokens = os.open(fifo, os.O_RDWR)
            try:
                bare = [stack.enter_context(rig.bare("loops", fifo)).ready() for _ in range(2)]
                os.write(tokens, b"." * rig.scale.loops)
            finally:
                # Both have it open: they read what is in it, then its end.
                os.close(tokens)
            began = time.monotonic_ns()
            for process in bare:
                process.go()
            ended = max(process.hear() for process in bare)
    finally:
        fifo.unlink()
    return float(rig.scale.loops / ((ended - began) / 1e9))
