"""How long after kill -9 of a worker its job runs again elsewhere, and until every worker is ready again."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from typing import Final

from bench.app import hold
from bench.beacon import Beacon
from bench.errors import BenchFailed
from bench.reading import Reading
from bench.rig import Rig, until
from bench.supervising import Supervisor

# Every kill hits a worker that is the first to die in its seat: later ones are replaced with a back-off on purpose.
QUEUES: Final = ("first", "second", "third", "fourth")
SETTLED_S: Final = 0.5


def measure(rig: Rig) -> list[Reading]:
    """Four queues of two workers; one worker of each is killed, then a fresh supervisor is started."""
    again: list[float] = []
    ready: list[float] = []
    with closing(Beacon()) as beacon:
        while len(again) < rig.scale.kills:
            rig.db.wipe()
            with rig.supervisor(",".join(f"{queue}=2" for queue in QUEUES)) as supervisor:
                supervisor.ready()
                for queue in QUEUES[: rig.scale.kills - len(again)]:
                    time.sleep(SETTLED_S)
                    times = _kill(beacon, supervisor, queue)
                    again.append(times[0])
                    ready.append(times[1])
    return [
        Reading(name="recovery", what="kill -9 to running elsewhere", unit="ms", product=again),
        Reading(name="recovery.ready", what="kill -9 to ready again", unit="ms", product=ready, goal="< 100"),
    ]


def _kill(beacon: Beacon, supervisor: Supervisor, queue: str) -> tuple[float, float]:
    hold.enqueue({"to": beacon.name}, queue=queue)
    victim = beacon.facts()
    killed = time.monotonic_ns()
    os.kill(victim["pid"], signal.SIGKILL)
    second = beacon.facts()
    if second["pid"] == victim["pid"] or second["attempt"] != 2:
        raise BenchFailed(f"after the kill of {victim} this ran: {second}")
    until(supervisor.is_ready, within=60, every=0.002)
    return (second["at"] - killed) / 1e6, (time.monotonic_ns() - killed) / 1e6
