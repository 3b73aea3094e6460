"""How much the tree's proportional set size grows per idle worker; floor: a plain fork with one connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import linear_regression

from bench.processes import pss_mb
from bench.reading import Reading, alternate
from bench.rig import Rig

Trees = list[dict[int, float]]


def measure(rig: Rig) -> list[Reading]:
    """The slope of a straight line through the sizes of trees with more and more workers."""
    trees, bare_trees = Trees(), Trees()
    ours, bare = alternate(
        rig.scale.memory_rounds,
        product=lambda: _slope(rig, partial(_product, rig), trees),
        floor=lambda: _slope(rig, partial(_floor, rig), bare_trees),
    )
    details = {"tree_mb_by_workers": trees, "floor_tree_mb_by_forks": bare_trees}
    return [
        Reading(name="memory", what="PSS per idle worker", unit="MB", product=ours, floor=bare, details=details),
    ]


def _slope(rig: Rig, weigh: Callable[[int], float], trees: Trees) -> float:
    sizes = {count: weigh(count) for count in rig.scale.workers}
    trees.append(sizes)
    return linear_regression(list(sizes), list(sizes.values())).slope


def _product(rig: Rig, workers: int) -> float:
    with rig.supervisor(f"default={workers}") as supervisor:
        supervisor.ready()
        time.sleep(rig.scale.idle_s)
        return pss_mb(supervisor.pid)


def _floor(rig: Rig, forks: int) -> float:
    with rig.bare("forks", rig.db.url, forks) as bare:
        bare.ready()
        return pss_mb(bare.pid)
