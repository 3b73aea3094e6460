"""Throughput without a look at the database: every twentieth part of a backlog, one job says that its turn has come."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from bench.beacon import Beacon
from bench.errors import BenchFailed

PARTS: Final = 20
# What comes before is the start: workers connect, and learn how long the jobs take.
WARM_PARTS: Final = 2
SILENCE_S: Final = 60.0


def every(jobs: int) -> int:
    """The distance of two marks."""
    return max(1, jobs // PARTS)


def warm(jobs: int) -> int:
    """How many jobs are done before the clock starts."""
    return WARM_PARTS * every(jobs)


@dataclass(frozen=True)
class Progress:
    """Jobs done and when, in CLOCK_MONOTONIC ns, in the order of the jobs."""

    points: tuple[tuple[int, int], ...]

    @property
    def rate(self) -> float:
        """Jobs per second from the first point to the last. Raises BenchFailed when that is no time."""
        (done, began), (all_done, ended) = self.points[0], self.points[-1]
        if ended <= began:
            raise BenchFailed("everything was over at once: too few jobs for a rate")
        return (all_done - done) / ((ended - began) / 1e9)

    def rates(self) -> list[tuple[int, float]]:
        """Jobs per second of every stretch, by the jobs done at its end; for curves."""
        return [
            (to, (to - done) / ((end - began) / 1e9))
            for (done, began), (to, end) in pairwise(self.points)
            if end > began
        ]


def follow(beacon: Beacon, jobs: int) -> Progress:
    """Listen until the last mark was heard. Raises BenchFailed when nothing is heard for long."""
    awaited = set(range(warm(jobs), jobs + 1, every(jobs)))
    heard: dict[int, int] = {}
    while awaited - heard.keys():
        facts = beacon.facts(within=SILENCE_S)
        heard.setdefault(facts["mark"], facts["at"])
    return Progress(tuple(sorted((mark, at) for mark, at in heard.items() if mark in awaited)))


def from_logs(logs: list[list[tuple[int, int]]], jobs: int) -> Progress:
    """The same from what bare processes wrote down: (when, how many) of every batch."""
    points, done = [], 0
    for at, count in sorted(batch for log in logs for batch in map(tuple, log)):
        done += count
        if done >= warm(jobs):
            points.append((done, at))
    if done != jobs:
        raise BenchFailed(f"the floors had {jobs} jobs and did {done}")
    return Progress(tuple(points))
