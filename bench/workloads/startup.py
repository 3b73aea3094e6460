"""How long `stoker run` takes until every worker is ready, on a migrated database.

Floor: one process with one connection.
"""

from __future__ import annotations

import time

from bench.reading import Reading, alternate
from bench.rig import Rig


def measure(rig: Rig) -> list[Reading]:
    """Two workers and the keeper."""
    ours, bare = alternate(rig.scale.rounds, product=lambda: _product(rig), floor=lambda: _floor(rig))
    return [
        Reading(
            name="startup",
            what="`stoker run` to ready, 2 workers",
            unit="ms",
            product=ours,
            floor=bare,
            floor_is="1 process, 1 connection",
            goal="< 1000",
        )
    ]


def _product(rig: Rig) -> float:
    with rig.supervisor("default=2") as supervisor:
        supervisor.ready()
        return (time.monotonic_ns() - supervisor.started_at) / 1e6


def _floor(rig: Rig) -> float:
    began = time.monotonic_ns()
    with rig.bare("boot", rig.db.url) as bare:
        bare.ready()
        return (time.monotonic_ns() - began) / 1e6
