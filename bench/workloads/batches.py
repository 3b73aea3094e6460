"""Jobs that do nothing and are not kept, by the most jobs that one claim may take."""

from __future__ import annotations

from bench.drive import Load, floor, product
from bench.reading import Reading, alternate
from bench.rig import Rig

# One commit a job: a tenth of the jobs lasts long enough.
SMALL, FEWER = 10, 10


def measure(rig: Rig) -> list[Reading]:
    """One reading per batch size."""
    return [_measure(rig, batch) for batch in rig.scale.batches]


def _measure(rig: Rig, batch: int) -> Reading:
    jobs = rig.scale.jobs if batch >= SMALL else rig.scale.jobs // FEWER
    load = Load(jobs=jobs, batch=batch)
    ours, bare = alternate(
        rig.scale.curve_rounds, product=lambda: product(rig, load).rate, floor=lambda: floor(rig, load).rate
    )
    return Reading(
        name=f"batch.{batch}",
        what=f"no-op, not kept, batches of ≤ {batch}, 2 workers",
        unit="/s",
        product=ours,
        floor=bare,
        floor_is=load.floor_is,
        details=load.details,
    )
