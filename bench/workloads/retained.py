"""Jobs that do nothing and are kept for as long as the default says."""

from __future__ import annotations

from bench.drive import Load, floor, product
from bench.reading import Reading, alternate
from bench.rig import Rig


def measure(rig: Rig) -> list[Reading]:
    """With two workers."""
    load = Load(jobs=rig.scale.jobs, kept=True)
    ours, bare = alternate(
        rig.scale.rounds, product=lambda: product(rig, load).rate, floor=lambda: floor(rig, load).rate
    )
    return [
        Reading(
            name="retained",
            what="no-op, default retention, 2 workers",
            unit="/s",
            product=ours,
            floor=bare,
            floor_is=load.floor_is,
            goal="≥ 0.5",
            details=load.details,
        )
    ]
