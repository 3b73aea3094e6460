"""Fixed pieces of pure-Python work per second through a queue with 2 workers; floor: two bare processes.

The ratio is the efficiency: what is left of two processors when a queue deals out the work. Every few pieces a worker
makes a round trip with a commit, so the shorter the piece, the more of it shows. What that costs at least, on the
processors that do the work as well, shows the second floor: bare psycopg loops that lease and archive the same jobs.
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
# As many as a worker has in hand in a long queue.
RAW_BATCH: Final = 8
_WALL: Final = "select extract(epoch from max(finished_at) - max(created_at))::float8 from stoker.finished"


def measure(rig: Rig) -> list[Reading]:
    """One reading per length of a job."""
    return [reading for ms in rig.scale.cpu_ms for reading in _measure(rig, ms)]


def _measure(rig: Rig, ms: int) -> list[Reading]:
    turns, count = turns_for(ms / 1e3), max(4, round(2 * rig.scale.cpu_s * 1e3 / ms))
    raw = list[float]()

    def floors() -> float:
        raw.append(_raw(rig, turns, count))
        return _floor(rig, turns, count)

    ours, bare = alternate(rig.scale.rounds, product=partial(_product, rig, turns, count), floor=floors)

    def reading(name: str, floor: list[float], floor_is: str, goal: str) -> Reading:
        return Reading(
            name=name,
            what=f"CPU-bound jobs of {ms} ms, 2 workers",
            unit="/s",
            product=ours,
            floor=floor,
            floor_is=floor_is,
            goal=goal,
            details={"turns": turns, "jobs": count},
        )

    goal = "≥ 0.97" if ms == WITH_GOAL_MS else ""
    return [
        reading(f"cpu.{ms}", bare, "2 bare loops", goal),
        reading(f"cpu.{ms}.raw", raw, f"raw update-then-delete-and-archive, 2 clients, {RAW_BATCH} at a time", ""),
    ]


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


def _raw(rig: Rig, turns: int, count: int) -> float:
    """The same jobs and what is written for them, without anything around it."""
    rig.db.wipe()
    rig.db.fill("bench", count)
    rig.db.tidy()
    with ExitStack() as stack:
        args = (rig.db.url, "update", "kept", RAW_BATCH, turns)
        bare = [stack.enter_context(rig.bare("claims", *args)).ready() for _ in range(2)]
        began = time.monotonic_ns()
        for process in bare:
            process.go()
        ended = max(at for process in bare for at, _ in process.hear())
    return float(count / ((ended - began) / 1e9))


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
