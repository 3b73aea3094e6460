"""Jobs that do nothing, with row locks off: every claim is written."""

from __future__ import annotations

from bench.drive import Load, floor, product
from bench.reading import Reading, alternate
from bench.rig import Rig


def measure(rig: Rig) -> list[Reading]:
    """Not kept, and kept."""
    return [_measure(rig, kept=False), _measure(rig, kept=True)]


def _measure(rig: Rig, *, kept: bool) -> Reading:
    load = Load(jobs=rig.scale.jobs, kept=kept, held="update")
    ours, bare = alternate(
        rig.scale.rounds, product=lambda: product(rig, load).rate, floor=lambda: floor(rig, load).rate
    )
    return Reading(
        name="leases.retained" if kept else "leases",
        what=f"no-op, leases forced, {'default retention' if kept else 'not kept'}, 2 workers",
        unit="/s",
        product=ours,
        floor=bare,
        floor_is=load.floor_is,
        goal="≥ 0.5",
        details=load.details,
    )
