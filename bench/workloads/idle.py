"""How much of a core an idle supervisor and everything below it use."""

from __future__ import annotations

import time

from bench.processes import cpu_ns
from bench.reading import Reading
from bench.rig import Rig

SETTLED_S = 1.0


def measure(rig: Rig) -> list[Reading]:
    """Supervisor, fork server, keeper and two workers, with nothing to do."""
    rig.db.wipe()
    with rig.supervisor("default=2") as supervisor:
        supervisor.ready()
        time.sleep(SETTLED_S)
        shares = [_share(supervisor.pid, rig.scale.idle_s) for _ in range(rig.scale.rounds)]
    return [Reading(name="idle", what="CPU of an idle tree, 2 workers", unit="% of a core", product=shares, goal="< 1")]


def _share(pid: int, seconds: float) -> float:
    used, began = cpu_ns(pid), time.monotonic_ns()
    time.sleep(seconds)
    return 100 * (cpu_ns(pid) - used) / (time.monotonic_ns() - began)
