"""How long an idle supervisor takes from SIGTERM to its exit; floor: one process with one connection."""

from __future__ import annotations

import signal
import time

from bench.reading import Reading, alternate
from bench.rig import Rig


def measure(rig: Rig) -> list[Reading]:
    """Two workers and the keeper."""
    ours, bare = alternate(rig.scale.rounds, product=lambda: _product(rig), floor=lambda: _floor(rig))
    return [
        Reading(
            name="drain",
            what="SIGTERM to exit, idle",
            unit="ms",
            product=ours,
            floor=bare,
            floor_is="1 process, 1 connection",
        )
    ]


def _product(rig: Rig) -> float:
    with rig.supervisor("default=2") as supervisor:
        supervisor.ready()
        return supervisor.stop() * 1e3


def _floor(rig: Rig) -> float:
    with rig.bare("boot", rig.db.url) as bare:
        bare.ready()
        began = time.monotonic_ns()
        bare.end(signal.SIGTERM)
        return (time.monotonic_ns() - began) / 1e6
