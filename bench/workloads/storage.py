"""What a job costs in dead tuples and in WAL, from ready to gone; floor: update, then delete."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final, LiteralString

from bench.beacon import Beacon
from bench.drive import Load, run, run_floor
from bench.marks import every
from bench.reading import Reading, alternate
from bench.rig import Rig, until

# Every update and every delete leaves one.
_DEAD: Final[LiteralString] = (
    "select coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint from pg_stat_all_tables where schemaname = '{}'"
)
_WAL: Final = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"

Costs = list[tuple[float, float]]


def measure(rig: Rig) -> list[Reading]:
    """Two workers, nothing kept."""
    load = Load(jobs=rig.scale.storage_jobs)
    updating = Load(jobs=rig.scale.storage_jobs, held="update")
    ours, bare = Costs(), Costs()
    alternate(
        rig.scale.rounds,
        product=lambda: _noted(ours, _product(rig, load)),
        floor=lambda: _noted(bare, _floor(rig, updating)),
    )
    return [
        Reading(
            name=f"storage.{name}",
            what=f"{what} per job, not kept",
            unit=unit,
            product=[cost[at] for cost in ours],
            floor=[cost[at] for cost in bare],
            floor_is=updating.floor_is,
            goal="≤ 0.6",
            details=load.details,
        )
        for at, (name, what, unit) in enumerate((("dead", "dead tuples", "rows"), ("wal", "WAL", "bytes")))
    ]


def _noted(costs: Costs, cost: tuple[float, float]) -> float:
    costs.append(cost)
    return cost[0]


def _product(rig: Rig, load: Load) -> tuple[float, float]:
    rig.db.wipe()
    with closing(Beacon()) as beacon:
        rig.db.fill("stoker", load.jobs, to=beacon.name, every=every(load.jobs))
        return _cost(rig, "stoker", load.jobs, lambda: run(rig, load, beacon))


def _floor(rig: Rig, load: Load) -> tuple[float, float]:
    rig.db.wipe()
    rig.db.fill("bench", load.jobs, to="nobody", every=every(load.jobs))
    return _cost(rig, "bench", load.jobs, lambda: run_floor(rig, load))


def _cost(rig: Rig, schema: LiteralString, jobs: int, spend: Callable[[], object]) -> tuple[float, float]:
    # No checkpoint: the first touch of a page after one writes all of it, which says more about the page than the job.
    rig.db.tidy(checkpoint=False)
    before = rig.db.sessions()
    dead, wal = rig.db.one(_DEAD.format(schema)), rig.db.one(_WAL)
    spend()
    # A backend has reported all it counted when it has ended.
    until(lambda: rig.db.sessions() <= before, within=30, every=0.01)
    return (rig.db.one(_DEAD.format(schema)) - dead) / jobs, (rig.db.one(_WAL) - wal) / jobs
