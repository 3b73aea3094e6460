"""Jobs that do nothing and are not kept, by number of worker processes."""

from __future__ import annotations

from bench.drive import Load, floor, product
from bench.reading import Reading, alternate
from bench.rig import Rig

WITH_GOAL = (1, 2)


def measure(rig: Rig) -> list[Reading]:
    """One reading per number of workers."""
    return [_measure(rig, workers) for workers in rig.scale.workers]


def _measure(rig: Rig, workers: int) -> Reading:
    load = Load(jobs=rig.scale.jobs, workers=workers)
    ours, bare = alternate(
        rig.scale.rounds if workers in WITH_GOAL else rig.scale.curve_rounds,
        product=lambda: product(rig, load).rate,
        floor=lambda: floor(rig, load).rate,
    )
    return Reading(
        name=f"noop.{workers}",
        what=f"no-op, not kept, {workers} worker{'s' if workers > 1 else ''}",
        unit="/s",
        product=ours,
        floor=bare,
        floor_is=load.floor_is,
        goal="≥ 0.5" if workers == 2 else "",
        details=load.details,
    )
