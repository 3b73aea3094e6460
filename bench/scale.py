"""How much is measured: enough for medians, or just enough to see that everything still works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Counts for every workload; a round is one pass of the floor and one of the product."""

    name: str
    rounds: int
    # Throughput: jobs of a round and per number of workers; points of a curve get fewer rounds than what has a goal.
    jobs: int
    workers: tuple[int, ...]
    batches: tuple[int, ...]
    curve_rounds: int
    snapshot_jobs: int
    # (ready rows, finished rows) that are there beside the jobs that are measured.
    backlogs: tuple[tuple[int, int], ...]
    backlog_jobs: int
    storage_jobs: int
    singles: int
    bulks: tuple[int, ...]
    writes: int
    pickups: int
    # Seconds of work for each of two processes, and how long a job lasts in ms.
    cpu_s: float
    cpu_ms: tuple[int, ...]
    memory_workers: tuple[int, ...]
    memory_rounds: int
    # MB of each of two tables, and over how many workers.
    table_mb: int
    preload_workers: tuple[int, ...]
    idle_s: float
    kills: int


FULL = Scale(
    name="full",
    rounds=3,
    jobs=150_000,
    workers=(1, 2, 3, 4),
    batches=(1, 10, 50, 200, 500),
    curve_rounds=1,
    snapshot_jobs=500_000,
    backlogs=((100_000, 500_000), (1_000_000, 5_000_000)),
    backlog_jobs=150_000,
    storage_jobs=100_000,
    singles=1_000,
    bulks=(10_000, 100_000),
    writes=300,
    pickups=200,
    cpu_s=8.0,
    cpu_ms=(25, 100),
    memory_workers=(1, 2, 4, 8),
    memory_rounds=2,
    table_mb=200,
    preload_workers=(1, 2, 4),
    idle_s=10.0,
    kills=8,
)
QUICK = Scale(
    name="quick",
    rounds=1,
    jobs=20_000,
    workers=(1, 2),
    batches=(10, 200),
    curve_rounds=1,
    snapshot_jobs=60_000,
    backlogs=((100_000, 200_000),),
    backlog_jobs=20_000,
    storage_jobs=20_000,
    singles=300,
    bulks=(10_000, 100_000),
    writes=50,
    pickups=40,
    cpu_s=1.5,
    cpu_ms=(25,),
    memory_workers=(1, 3),
    memory_rounds=1,
    table_mb=200,
    preload_workers=(1, 2),
    idle_s=3.0,
    kills=2,
)
SMOKE = Scale(
    name="smoke",
    rounds=1,
    jobs=1_000,
    workers=(1,),
    batches=(20,),
    curve_rounds=1,
    snapshot_jobs=100,
    backlogs=((100, 100),),
    backlog_jobs=1_000,
    storage_jobs=1_000,
    singles=5,
    bulks=(100,),
    writes=2,
    pickups=3,
    cpu_s=0.04,
    cpu_ms=(10,),
    memory_workers=(1, 2),
    memory_rounds=1,
    table_mb=2,
    preload_workers=(1, 2),
    idle_s=0.2,
    kills=1,
)
