"""The figures by name, in the order they are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.figures import bulk, cpu, drain, enqueue, memory, pickup, recovery, startup, throughput
from bench.reading import Reading
from bench.rig import Rig

FIGURES: Final[dict[str, Callable[[Rig], list[Reading]]]] = {
    "startup": startup.measure,
    "drain": drain.measure,
    "throughput": throughput.measure,
    "enqueue": enqueue.measure,
    "bulk": bulk.measure,
    "pickup": pickup.measure,
    "cpu": cpu.measure,
    "memory": memory.measure,
    "recovery": recovery.measure,
}
