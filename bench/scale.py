"""How much is measured: enough for medians, or just enough to see that everything still works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Counts for every figure; a round is one pass of the floor and one of the product."""

    name: str
    rounds: int
    jobs: int
    singles: int
    bulks: tuple[int, ...]
    pickups: int
    long_loops: int
    short_loops: int
    cpu_rounds: int
    workers: tuple[int, ...]
    idle_s: float
    memory_rounds: int
    kills: int


FULL = Scale(
    name="full",
    rounds=5,
    jobs=20_000,
    singles=500,
    bulks=(10_000, 100_000),
    pickups=200,
    # Ten seconds of work a round: start and tail of a round are no part of the efficiency.
    long_loops=200,
    short_loops=1_000,
    cpu_rounds=3,
    workers=(1, 2, 4, 8),
    idle_s=2.0,
    memory_rounds=2,
    kills=20,
)
QUICK = Scale(
    name="quick",
    rounds=3,
    jobs=5_000,
    singles=200,
    bulks=(10_000,),
    pickups=50,
    long_loops=20,
    short_loops=150,
    cpu_rounds=3,
    workers=(1, 4),
    idle_s=1.0,
    memory_rounds=1,
    kills=4,
)
SMOKE = Scale(
    name="smoke",
    rounds=1,
    jobs=50,
    singles=5,
    bulks=(100,),
    pickups=3,
    long_loops=4,
    short_loops=8,
    cpu_rounds=1,
    workers=(1, 2),
    idle_s=0.0,
    memory_rounds=1,
    kills=1,
)
