"""The same jobs while another session holds an old snapshot, so that nothing dead can be removed, and without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from bench.beacon import Beacon
from bench.drive import Load, check_settled, run
from bench.marks import Progress, every
from bench.reading import Reading, alternate
from bench.rig import Rig
from stoker.database import connect


def measure(rig: Rig) -> list[Reading]:
    """Two workers; the curves show what happens as dead rows pile up."""
    load = Load(jobs=rig.scale.snapshot_jobs)
    held, free = list[Progress](), list[Progress]()
    ours, without = alternate(
        rig.scale.rounds,
        product=partial(_round, rig, load, held, pinned=True),
        floor=partial(_round, rig, load, free, pinned=False),
    )
    curves = {"stretches": [one.rates() for one in held], "floor_stretches": [one.rates() for one in free]}
    return [
        Reading(
            name="snapshot",
            what=f"no-op, an old snapshot held for {load.jobs:,} jobs",
            unit="/s",
            product=ours,
            floor=without,
            floor_is="the same without it",
            goal="≥ 0.7",
            details={**load.details, **curves},
        )
    ]


def _round(rig: Rig, load: Load, seen: list[Progress], *, pinned: bool) -> float:
    rig.db.wipe()
    with closing(Beacon()) as beacon:
        rig.db.fill("stoker", load.jobs, to=beacon.name, every=every(load.jobs))
        rig.db.tidy()
        if pinned:
            with old_snapshot(rig):
                seen.append(run(rig, load, beacon))
        else:
            seen.append(run(rig, load, beacon))
    check_settled(rig, load)
    return seen[-1].rate


@contextmanager
def old_snapshot(rig: Rig) -> Iterator[None]:
    """A session with a transaction id and a snapshot of its own, which it keeps."""
    with closing(connect(rig.db.url, name="bench snapshot")) as conn:
        conn.execute("begin isolation level repeatable read")
        conn.execute("select pg_current_xact_id(), count(*) from stoker.hosts")
        yield
        conn.execute("rollback")
