"""What is read off samples, marks and logs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.errors import BenchFailed
from bench.marks import Progress, every, from_logs, warm
from bench.plots import distribution, plots
from bench.publish import newest
from bench.reading import Reading, alternate, quantile
from bench.workloads import WORKLOADS

S = 1_000_000_000


def test_a_rate_is_from_the_first_point_to_the_last() -> None:
    progress = Progress(((100, 1 * S), (200, 2 * S), (400, 3 * S)))
    assert progress.rate == 150
    assert progress.rates() == [(200, 100), (400, 200)]


def test_a_rate_without_time_is_refused() -> None:
    with pytest.raises(BenchFailed, match="too few"):
        _ = Progress(((100, S),)).rate


def test_what_several_processes_did_is_added_up_once_they_are_warm() -> None:
    assert (every(1_000), warm(1_000)) == (50, 100)
    progress = from_logs([[(1 * S, 60), (3 * S, 400)], [(2 * S, 60), (4 * S, 480)]], 1_000)
    assert progress.points == ((120, 2 * S), (520, 3 * S), (1_000, 4 * S))


def test_a_floor_that_lost_jobs_is_refused() -> None:
    with pytest.raises(BenchFailed, match="did 999"):
        from_logs([[(S, 999)]], 1_000)


def test_the_ratio_is_the_median_of_pairs() -> None:
    reading = Reading(name="r", what="", unit="/s", product=[50, 10, 90], floor=[100, 20, 100])
    assert (reading.value, reading.floor_value, reading.ratio) == (50, 100, 0.5)


def test_a_quantile_is_a_value_that_occurred() -> None:
    assert quantile([5, 1, 4, 2, 3], 0.5) == 3
    assert quantile([5, 1, 4, 2, 3], 0.99) == 5


def test_floor_and_product_are_measured_in_turn() -> None:
    order: list[str] = []

    def product() -> float:
        order.append("product")
        return 1.0

    def floor() -> float:
        order.append("floor")
        return 2.0

    assert alternate(3, product=product, floor=floor) == ([1.0] * 3, [2.0] * 3)
    assert order == ["floor", "product", "product", "floor", "floor", "product"]


def test_a_distribution_climbs_to_one() -> None:
    assert distribution([3.0, -1.0, 2.0, 1.0]) == [(-1.0, 0.0), (-1.0, 0.25), (1.0, 0.5), (2.0, 0.75), (3.0, 1.0)]


def test_every_curve_of_a_result_is_drawn() -> None:
    pair = {"value": 50_000.0, "floor": 60_000.0}
    stretches = [[(100, 40_000.0), (200, 50_000.0)]]
    samples = {"samples": [1.0, 0.5], "floor_samples": [0.3, 0.4]}
    readings = [
        *({"name": f"noop.{workers}", "workers": workers, **pair} for workers in (1, 2)),
        *({"name": f"batch.{batch}", "batch": batch, **pair} for batch in (10, 200)),
        {"name": "backlog.1000", "jobs": 100, "ready": 1_000, **pair},
        {"name": "snapshot", "stretches": stretches, "floor_stretches": stretches},
        {"name": "pickup.short.p50", **samples},
        {"name": "pickup.unseen.p50", **samples},
    ]
    drawn = plots({"readings": readings})
    assert set(drawn) == {"processes", "batches", "backlog", "snapshot", "latency"}
    for chart in drawn.values():
        ElementTree.fromstring(chart.svg())


def test_only_a_complete_result_is_published(tmp_path: Path) -> None:
    whole = {"workloads": list(WORKLOADS), "failed": {}, "scale": "full", "readings": []}
    others = [{**whole, "failed": {"noop": "?"}}, {**whole, "scale": "smoke"}, {**whole, "workloads": ["noop"]}]
    for at, document in enumerate(others, start=1):
        (tmp_path / f"{at}.json").write_text(json.dumps(document))
    with pytest.raises(BenchFailed, match="whole run"):
        newest(tmp_path)
    (tmp_path / "0.json").write_text(json.dumps(whole))
    assert newest(tmp_path) == whole
