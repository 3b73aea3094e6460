"""How much the tree's proportional set size grows per idle worker.

Floors: a plain fork with one connection, and a process that was exec'd and imported everything itself, which is what
preloading saves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import linear_regression
from typing import Final

from bench.interrupts import interrupts
from bench.processes import pss_mb
from bench.reading import Reading
from bench.rig import Rig

SETTLED_S: Final = 1.0
# A tree's size by its number of workers, one per round.
Trees = list[dict[int, float]]


def measure(rig: Rig) -> list[Reading]:
    """The slope of a straight line through the sizes of trees with more and more workers."""
    ways: dict[str, Callable[[Rig, int], float]] = {"worker": _product, "fork": _forked, "exec": _execed}
    trees: dict[str, Trees] = {way: [] for way in ways}
    for _ in range(rig.scale.memory_rounds):
        for way, weigh in ways.items():
            trees[way].append(_sizes(rig, partial(weigh, rig)))
    slopes = {way: [_slope(sizes) for sizes in rounds] for way, rounds in trees.items()}
    read = partial(Reading, unit="MB", product=slopes["worker"])
    return [
        read(
            name="memory",
            what="PSS per added idle worker",
            floor=slopes["fork"],
            floor_is="a plain fork",
            goal="≤ 8 MB",
            details={"tree_mb": trees["worker"], "floor_tree_mb": trees["fork"]},
        ),
        read(
            name="memory.exec",
            what="PSS per added idle worker",
            floor=slopes["exec"],
            floor_is="exec'd, nothing preloaded",
            details={"floor_tree_mb": trees["exec"]},
        ),
    ]


def _sizes(rig: Rig, weigh: Callable[[int], float]) -> dict[int, float]:
    sizes = {}
    for count in rig.scale.memory_workers:
        interrupts.check()
        sizes[count] = weigh(count)
    return sizes


def _slope(sizes: dict[int, float]) -> float:
    return linear_regression(list(sizes), list(sizes.values())).slope


def _product(rig: Rig, workers: int) -> float:
    with rig.supervisor(f"default={workers}") as supervisor:
        supervisor.ready()
        time.sleep(SETTLED_S)
        return pss_mb(supervisor.pid)


def _forked(rig: Rig, forks: int) -> float:
    with rig.bare("forks", rig.db.url, forks) as bare:
        bare.ready()
        return pss_mb(bare.pid)


def _execed(rig: Rig, processes: int) -> float:
    with ExitStack() as stack:
        bare = [stack.enter_context(rig.bare("boot", rig.db.url, "worker")) for _ in range(processes)]
        return sum(pss_mb(process.ready().pid) for process in bare)
