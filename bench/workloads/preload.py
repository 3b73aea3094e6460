"""How much the tree grows per worker over tables that were preloaded: idle, after a garbage collection, after reading.

Floor: the same without gc.freeze(), as if the fork server had left its heap to the garbage collectors of its children.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import linear_regression
from typing import Any, Final

from bench.beacon import Beacon
from bench.errors import BenchFailed
from bench.interrupts import interrupts
from bench.processes import pss_mb
from bench.reading import Reading, alternate
from bench.rig import Rig
from bench.supervising import Supervisor
from stoker import Job

SETTLED_S: Final = 1.0
WITHIN_S: Final = 300.0
FROZEN, THAWED = "bench.preloading", "bench.preloading,bench.thawing"
# What the workers have done, one after the other, and the job that has them do it.
STATES: Final = {
    "idle": ("idle", ""),
    "collected": ("after a collection", "collect"),
    "packed": ("after reading {mb} MB of packed numbers", "read_packed"),
    "objects": ("after reading {mb} MB of objects", "read_objects"),
}


def measure(rig: Rig) -> list[Reading]:
    """For every state the slope of a straight line through the sizes of trees with more and more workers."""
    rounds: dict[str, list[dict[str, float]]] = {FROZEN: [], THAWED: []}

    def grown(app: str) -> float:
        rounds[app].append(_slopes(rig, app))
        return 0.0

    alternate(rig.scale.memory_rounds, product=lambda: grown(FROZEN), floor=lambda: grown(THAWED))
    return [
        Reading(
            name=f"preload.{state}",
            what=f"preloaded: PSS per worker, {words.format(mb=rig.scale.table_mb)}",
            unit="MB",
            product=[slopes[state] for slopes in rounds[FROZEN]],
            floor=[slopes[state] for slopes in rounds[THAWED]],
            floor_is="without gc.freeze()",
        )
        for state, (words, _) in STATES.items()
    ]


def _slopes(rig: Rig, app: str) -> dict[str, float]:
    sizes: dict[str, dict[int, float]] = {state: {} for state in STATES}
    for workers in rig.scale.preload_workers:
        interrupts.check()
        for state, size in _sizes(rig, app, workers):
            sizes[state][workers] = size
    return {state: linear_regression(list(points), list(points.values())).slope for state, points in sizes.items()}


def _sizes(rig: Rig, app: str, workers: int) -> Iterator[tuple[str, float]]:
    rig.db.wipe()
    env, settings = {"TABLE_MB": str(rig.scale.table_mb)}, {"app": app, "boot_deadline": "5m"}
    started = Supervisor(rig.directory, rig.db.url, queues=f"default={workers}", settings=settings, env=env)
    with closing(Beacon()) as beacon, started as supervisor:
        supervisor.ready()
        time.sleep(SETTLED_S)
        for state, (_, job) in STATES.items():
            if job:
                _everywhere(_declared(job), supervisor, beacon, workers, rig.directory / f"until-{state}")
            yield state, pss_mb(supervisor.pid)


def _declared(name: str) -> Job[Any, Any]:
    # Not before it is needed: whoever only imports this module declares no preload hooks.
    from bench import preloading

    job: Job[Any, Any] = getattr(preloading, name)
    return job


def _everywhere(job: Job[Any, Any], supervisor: Supervisor, beacon: Beacon, workers: int, until: Path) -> None:
    """Have every worker run the job, each once."""
    until.unlink(missing_ok=True)
    for _ in range(workers):
        job.enqueue({"to": beacon.name, "until": str(until)})
    pids = {beacon.facts(WITHIN_S)["pid"] for _ in range(workers)}
    until.touch()
    if len(pids) != workers:
        raise BenchFailed(f"{workers} workers below {supervisor.pid}, but the jobs ran in {pids}")
