"""The plots of the page, from a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bench.chart import Chart, Point, Series
from bench.reading import quantile

Document = dict[str, Any]
JOBS: Final = "jobs per second"
# The rest of a distribution is a long thin line that squeezes the others.
SHOWN: Final = 0.995


def plots(document: Document) -> dict[str, Chart]:
    """The charts by name, as many as the result has something for."""
    drawn = {
        "batches": _over(document, "batch.", "batch", "Throughput over batch size", "most jobs per claim", log=True),
        "processes": _over(document, "noop.", "workers", "Throughput over processes", "worker processes"),
        "backlog": _backlog(document),
        "snapshot": _snapshot(document),
        "latency": _latency(document),
    }
    return {name: chart for name, chart in drawn.items() if chart}


def _named(document: Document, prefix: str) -> list[dict[str, Any]]:
    return [reading for reading in document["readings"] if reading["name"].startswith(prefix)]


def _over(document: Document, prefix: str, key: str, title: str, x: str, *, log: bool = False) -> Chart | None:
    readings = sorted(_named(document, prefix), key=lambda reading: reading[key])
    if not readings:
        return None
    series = [
        Series(name="Stoker", points=[(reading[key], reading["value"]) for reading in readings]),
        Series(
            name="raw lock-then-delete", points=[(reading[key], reading["floor"]) for reading in readings], dashed=True
        ),
    ]
    return Chart(title=title, x=x, y=JOBS, series=series, log=log, x_ticks=[reading[key] for reading in readings])


def _backlog(document: Document) -> Chart | None:
    readings = _named(document, "backlog.")
    if not readings:
        return None
    ready = [reading["jobs"] + reading["ready"] for reading in readings]
    # An empty queue is one with nothing but the jobs that are measured.
    ours = [(readings[0]["jobs"], readings[0]["floor"]), *zip(ready, (r["value"] for r in readings), strict=True)]
    empty = list(zip(ready, (reading["floor"] for reading in readings), strict=True))
    return Chart(
        title="Throughput over backlog size, with 2 to 5 times as many finished rows",
        x="ready rows",
        y=JOBS,
        series=[
            Series(name="Stoker", points=ours),
            Series(name="on an empty queue, at the same time", points=empty, dashed=True),
        ],
        log=True,
        x_ticks=[x for x, _ in ours],
    )


def _snapshot(document: Document) -> Chart | None:
    readings = _named(document, "snapshot")
    if not readings:
        return None
    series = [
        Series(name="snapshot held", points=readings[0]["stretches"][-1]),
        Series(name="without it", points=readings[0]["floor_stretches"][-1], dashed=True),
    ]
    return Chart(
        title="Throughput while an old snapshot is held", x="jobs done since it was taken", y=JOBS, series=series
    )


def _latency(document: Document) -> Chart | None:
    readings = {reading["name"]: reading for reading in _named(document, "pickup.")}
    if not readings:
        return None
    short, unseen = readings["pickup.short.p50"], readings["pickup.unseen.p50"]
    series = [
        Series(name="known short job", points=distribution(short["samples"])),
        Series(name="name never seen", points=distribution(unseen["samples"])),
        Series(name="LISTEN + claim", points=distribution(short["floor_samples"]), dashed=True),
    ]
    return Chart(
        title="Idle pick-up, from the return of the commit to the handler",
        x="milliseconds",
        y="share of jobs started",
        series=series,
        steps=True,
    )


def distribution(samples: Sequence[float]) -> list[Point]:
    """The share of samples that are at most so large."""
    shown = [sample for sample in sorted(samples) if sample <= quantile(samples, SHOWN)]
    return [(shown[0], 0.0), *((sample, (at + 1) / len(samples)) for at, sample in enumerate(shown))]
