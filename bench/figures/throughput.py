"""No-op jobs per second with 1 and 2 workers; floor: as many bare processes that claim and settle in equal batches.

The jobs wait in the table before anybody starts. The rate is read from the database's own times, from the first row
that finished to the last, so start-up is not in it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import Final, LiteralString

from bench.app import noop
from bench.errors import BenchFailed
from bench.reading import Reading, alternate
from bench.rig import Rig, until
from stoker.settings import Settings

WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.1
_RATE: Final[LiteralString] = (
    "select count(*), extract(epoch from max(finished_at) - min(finished_at))::float8 from {}.finished"
)
_FILL_FLOOR: Final = """
insert into bench.jobs (id, pos, queue, name, payload)
select n, n, 'default', 'noop', '{}' from generate_series(1, %s) n
"""


def measure(rig: Rig) -> list[Reading]:
    """One reading per number of workers."""
    return [_measure(rig, workers) for workers in (1, 2)]


def _measure(rig: Rig, workers: int) -> Reading:
    walls: list[float] = []
    ours, bare = alternate(
        rig.scale.rounds, product=partial(_product, rig, workers, walls), floor=partial(_floor, rig, workers)
    )
    plural = "s" if workers > 1 else ""
    return Reading(
        name=f"throughput.{workers}",
        what=f"no-op jobs, {workers} worker{plural}",
        unit="/s",
        product=ours,
        floor=bare,
        details={"jobs": rig.scale.jobs, "start_to_empty_s": walls},
    )


def _product(rig: Rig, workers: int, walls: list[float]) -> float:
    rig.db.wipe()
    noop.enqueue_many({} for _ in range(rig.scale.jobs))
    with rig.supervisor(f"default={workers}") as supervisor:
        until(lambda: _is_empty(rig), within=WITHIN_S, every=LOOK_EVERY_S)
        walls.append((time.monotonic_ns() - supervisor.started_at) / 1e9)
        supervisor.ready()
        return _rate(rig, "stoker")


def _floor(rig: Rig, workers: int) -> float:
    rig.db.wipe()
    rig.db.conn.execute(_FILL_FLOOR, (rig.scale.jobs,))
    with ExitStack() as stack:
        batch = Settings().batch
        bare = [stack.enter_context(rig.bare("claims", rig.db.url, batch)) for _ in range(workers)]
        for process in bare:
            process.ready()
        for process in bare:
            process.go()
        for process in bare:
            process.hear()
    return _rate(rig, "bench")


def _is_empty(rig: Rig) -> bool:
    return not rig.db.one("select exists (select from stoker.jobs)")


def _rate(rig: Rig, schema: LiteralString) -> float:
    row = rig.db.conn.execute(_RATE.format(schema)).fetchone()
    if row is None or row[0] != rig.scale.jobs:
        raise BenchFailed(f"{rig.scale.jobs} jobs were enqueued, and {row and row[0]} finished")
    return float(row[0] / row[1])
