"""How long an idle worker takes from the call of enqueue to the start of the handler.

Floor: an insert with a notification, and a bare process that listens and claims.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

from bench.app import started
from bench.beacon import Beacon
from bench.floors.listener import INSERT
from bench.reading import Reading, alternate
from bench.rig import Rig

PAUSE_S: Final = (0.02, 0.06)
WARM_UP: Final = 10


def measure(rig: Rig) -> list[Reading]:
    """Median and 99th percentile; both sides wait side by side and are asked in turn."""
    rig.db.wipe()
    with (
        closing(Beacon()) as beacon,
        rig.bare("listener", rig.db.url, beacon.name) as bare,
        rig.supervisor("default=2") as supervisor,
    ):
        bare.ready()
        supervisor.ready()
        ours, floor = alternate(
            WARM_UP + rig.scale.pickups,
            product=lambda: _latency(beacon, lambda: started.enqueue({"to": beacon.name})),
            floor=lambda: _latency(beacon, lambda: rig.db.conn.execute(INSERT)),
        )
    return [
        Reading(
            name=f"pickup.{name}",
            what=f"idle pick-up, {name}",
            unit="ms",
            product=ours[WARM_UP:],
            floor=floor[WARM_UP:],
            quantile=at,
        )
        for name, at in (("p50", 0.5), ("p99", 0.99))
    ]


def _latency(beacon: Beacon, enqueue: Callable[[], object]) -> float:
    time.sleep(random.uniform(*PAUSE_S))
    began = time.monotonic_ns()
    enqueue()
    return float(beacon.facts()["at"] - began) / 1e6
