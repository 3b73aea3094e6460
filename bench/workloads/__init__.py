"""The workloads by name, in the order they are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.reading import Reading
from bench.rig import Rig
from bench.workloads import (
    backlog,
    batches,
    bulk,
    cpu,
    drain,
    enqueue,
    idle,
    leases,
    memory,
    noop,
    pickup,
    preload,
    recovery,
    retained,
    snapshot,
    startup,
    storage,
    writers,
)

WORKLOADS: Final[dict[str, Callable[[Rig], list[Reading]]]] = {
    "noop": noop.measure,
    "retained": retained.measure,
    "leases": leases.measure,
    "batches": batches.measure,
    "enqueue": enqueue.measure,
    "bulk": bulk.measure,
    "writers": writers.measure,
    "pickup": pickup.measure,
    "backlog": backlog.measure,
    "snapshot": snapshot.measure,
    "storage": storage.measure,
    "cpu": cpu.measure,
    "recovery": recovery.measure,
    "startup": startup.measure,
    "drain": drain.measure,
    "memory": memory.measure,
    "preload": preload.measure,
    "idle": idle.measure,
}
