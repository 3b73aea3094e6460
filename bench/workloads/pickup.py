"""How long an idle worker takes to start a job that has just been enqueued.

From the moment the enqueue's commit has returned to the first line of the handler: below 0 when the handler was faster
than the answer. And from the call of enqueue. Floor: an insert with a notification, and a bare process that listens and
claims.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from bench.app import FRESH, fresh, known
from bench.beacon import Beacon
from bench.floors.listener import INSERT
from bench.interrupts import interrupts
from bench.reading import Reading
from bench.rig import Rig

PAUSE_S: Final = (0.02, 0.06)
WARM_UP: Final = 10
GOALS: Final = {0.5: "≤ 2 ms", 0.99: "≤ 10 ms"}


@dataclass(frozen=True)
class Delays:
    """One way to enqueue, and what it took, in ms."""

    enqueue: Callable[[], object]
    after_commit: list[float] = field(default_factory=list)
    after_call: list[float] = field(default_factory=list)

    def take(self, beacon: Beacon) -> None:
        """One more sample, while nobody does anything."""
        interrupts.check()
        time.sleep(random.uniform(*PAUSE_S))
        called = time.monotonic_ns()
        self.enqueue()
        returned = time.monotonic_ns()
        started = beacon.facts()["at"]
        self.after_commit.append((started - returned) / 1e6)
        self.after_call.append((started - called) / 1e6)


def measure(rig: Rig) -> list[Reading]:
    """A known short job and names never seen; all sides wait side by side and are asked in turn."""
    rig.db.wipe()
    count = min(rig.scale.pickups, FRESH)
    names = iter(fresh)
    with (
        closing(Beacon()) as beacon,
        rig.bare("listener", rig.db.url, beacon.name) as bare,
        rig.supervisor("default=2") as supervisor,
    ):
        bare.ready()
        supervisor.ready()
        short = Delays(lambda: known.enqueue({"to": beacon.name}))
        unseen = Delays(lambda: next(names).enqueue({"to": beacon.name}))
        floor = Delays(lambda: rig.db.conn.execute(INSERT))
        for way in (short, floor):
            for _ in range(WARM_UP):
                Delays(way.enqueue).take(beacon)
        for _ in range(count):
            for way in (short, unseen, floor):
                way.take(beacon)
    return [
        *_readings("short", "known short job", short, floor),
        *_readings("unseen", "name never seen", unseen, floor),
    ]


def _readings(name: str, what: str, ours: Delays, floor: Delays) -> list[Reading]:
    def read(at: float, since: str, product: Sequence[float], bare: Sequence[float]) -> Reading:
        called = since == "call"
        return Reading(
            name=f"pickup.{name}.p{at * 100:.0f}{'.call' if called else ''}",
            what=f"idle pick-up, {what}, p{at * 100:.0f} from {since}",
            unit="ms",
            product=product,
            floor=bare,
            floor_is="LISTEN + claim",
            goal="" if called else GOALS[at],
            quantile=at,
        )

    return [
        read(at, since, product, bare)
        for since, product, bare in (
            ("commit", ours.after_commit, floor.after_commit),
            ("call", ours.after_call, floor.after_call),
        )
        for at in GOALS
    ]
