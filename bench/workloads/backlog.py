"""The same jobs at the head of a long queue with a long history, and on a queue that holds nothing else."""

from __future__ import annotations

from contextlib import closing

from bench.beacon import Beacon
from bench.drive import Load, product, run
from bench.marks import every
from bench.reading import Reading, alternate
from bench.rig import Rig

# As in a queue that has been running: what ended has the lowest ids, what waits longest comes before all the rest.
HEAD = 10**9
BEHIND = 2 * HEAD


def measure(rig: Rig) -> list[Reading]:
    """One reading per size; the big database is filled once and grows from size to size."""
    with rig.elsewhere() as big:
        return [_measure(rig, big, at) for at in range(len(rig.scale.backlogs))]


def _measure(rig: Rig, big: Rig, at: int) -> Reading:
    ready, finished = rig.scale.backlogs[at]
    _grow(big, at)
    # Kept, like the history: with another retention the keeper would be busy removing that.
    load = Load(jobs=rig.scale.backlog_jobs, kept=True)
    ours, empty = alternate(
        rig.scale.rounds, product=lambda: _behind_others(big, load), floor=lambda: product(rig, load).rate
    )
    return Reading(
        name=f"backlog.{ready}",
        what=f"no-op, backlog {ready:,} ready + {finished:,} finished",
        unit="/s",
        product=ours,
        floor=empty,
        floor_is="the same on an empty queue",
        goal="≥ 0.9",
        details={**load.details, "ready": ready, "finished": finished},
    )


def _grow(big: Rig, at: int) -> None:
    had = big.scale.backlogs[at - 1] if at else (0, 0)
    ready, finished = big.scale.backlogs[at]
    big.db.fill("stoker", ready - had[0], after=BEHIND + had[0])
    big.db.fill_finished(finished - had[1], after=had[1])


def _behind_others(big: Rig, load: Load) -> float:
    with closing(Beacon()) as beacon:
        # The ids of the round before are gone by now.
        big.db.fill("stoker", load.jobs, after=HEAD, to=beacon.name, every=every(load.jobs))
        big.db.tidy()
        return run(big, load, beacon, after=HEAD).rate
