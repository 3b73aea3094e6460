"""Prometheus families from a snapshot, with the counters of living children read from the board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from supervisor.snapshot import Snapshot, in_flight
from supervisor.totals import Durations, Totals, read_counters, read_durations
from worker_proc.board import BUCKETS, SlotWord

COUNTED: Final = ("ok", "failed", "dead", "cancelled")


class Metrics:
    """A collector for a registry of its own: what it yields is as exact as the board."""

    def __init__(self, snapshot: Callable[[], Snapshot], *, now: Callable[[], int]) -> None:
        self._snapshot = snapshot
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Every family of ours."""
        snapshot, totals = self._read()
        yield from _queues(snapshot)
        yield from _jobs(totals)
        yield from _children(snapshot)
        flight = GaugeMetricFamily("stoker_in_flight", "Bodies executing now.", labels=["queue"])
        for queue, number in in_flight(snapshot).items():
            flight.add_metric([queue], number)
        yield flight
        began = snapshot.drain_started_at
        drain = GaugeMetricFamily("stoker_drain_seconds", "How long the drain has taken so far; 0 when there is none.")
        drain.add_metric([], (self._now() - began) / 1e9 if began else 0.0)
        yield drain

    def _read(self) -> tuple[Snapshot, Totals]:
        """Totals of the dead and counters of the living, each child in exactly one of them."""
        while True:
            snapshot = self._snapshot()
            totals = snapshot.totals.copy()
            workers = [child for child in snapshot.children if child.queue]
            for child in workers:
                totals.add(child.queue, read_counters(child.place, snapshot.names), read_durations(child.place))
            # A slot is cleared only after a snapshot without its child was published: try again with that one.
            if all(child.place[SlotWord.CLAIM_NO] == child.claim_no for child in workers):
                return snapshot, totals


def _queues(snapshot: Snapshot) -> Iterator[Metric]:
    depth = GaugeMetricFamily("stoker_queue_depth", "Jobs in a queue, by state.", labels=["queue", "state"])
    oldest = GaugeMetricFamily("stoker_queue_oldest_ready_seconds", "Age of the oldest ready job.", labels=["queue"])
    dead = GaugeMetricFamily("stoker_queue_dead_jobs", "Dead-lettered jobs that are kept.", labels=["queue"])
    for gauge in snapshot.gauges.queues:
        for state, number in gauge.depth.items():
            depth.add_metric([gauge.queue, state], number)
        oldest.add_metric([gauge.queue], gauge.oldest_ready_s)
        dead.add_metric([gauge.queue], gauge.dead)
    yield from (depth, oldest, dead)
    held = "How long the oldest snapshot has been held that keeps dead rows of the queue from being cleaned away."
    yield GaugeMetricFamily("stoker_oldest_snapshot_seconds", held, value=snapshot.gauges.oldest_snapshot_s)


def _jobs(totals: Totals) -> Iterator[Metric]:
    jobs = CounterMetricFamily("stoker_jobs", "Attempts that ended, by outcome.", labels=["queue", "job", "outcome"])
    lost = 0
    for (queue, name, outcome), number in sorted(totals.jobs.items()):
        if outcome in COUNTED:
            jobs.add_metric([queue, name, outcome], number)
        lost += number if outcome == "lost" else 0
    yield jobs
    yield CounterMetricFamily("stoker_leases_lost", "Runs that were no longer ours to settle.", value=lost)
    times = HistogramMetricFamily("stoker_job_duration_seconds", "How long bodies ran.", labels=["queue"])
    for queue, durations in sorted(totals.durations.items()):
        times.add_metric([queue], _buckets(durations), durations.sum_us / 1e6)
    yield times


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    return list(zip(bounds, accumulate(durations.buckets), strict=True))


def _children(snapshot: Snapshot) -> Iterator[Metric]:
    numbers = Counter((child.role, "retiring" if child.retiring else child.state) for child in snapshot.children)
    numbers.update((seat.role, "parked") for seat in snapshot.seats if seat.parked)
    children = GaugeMetricFamily("stoker_children", "Child processes.", labels=["role", "state"])
    for (role, state), number in sorted(numbers.items()):
        children.add_metric([role, state], number)
    yield children
    restarts = CounterMetricFamily("stoker_child_restarts", "Children replaced.", labels=["role", "reason"])
    for (role, reason), number in sorted(snapshot.restarts.items()):
        restarts.add_metric([role, reason], number)
    yield restarts
