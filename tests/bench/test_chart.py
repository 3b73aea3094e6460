"""Charts are files that a browser can read, and what is drawn lies inside the frame."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.chart import HEIGHT, LEFT, RIGHT, WIDTH, Chart, Series, label, stepped, ticks

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("steps", [True, False])
def test_a_chart_holds_its_lines(log: bool, steps: bool) -> None:
    series = [
        Series(name="ours & theirs", points=[(1, 50_000), (10, 80_000), (500, 120_000)]),
        Series(name="floor", points=[(1, 60_000), (500, 130_000)], dashed=True),
    ]
    root = ElementTree.fromstring(
        Chart(title="a < b", x="batch", y="jobs/s", series=series, log=log, steps=steps).svg()
    )
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"a < b", "batch", "jobs/s", "━ ours & theirs", "╌ floor"} <= texts
    lines = [line.get("points", "").split() for line in root.iter(f"{SVG}polyline")]
    places = [tuple(map(float, place.split(","))) for line in lines for place in line]
    assert all(LEFT <= x <= WIDTH - RIGHT and 0 <= y <= HEIGHT for x, y in places)


def test_a_chart_of_one_point_can_be_drawn() -> None:
    ElementTree.fromstring(Chart(title="t", x="x", y="y", series=[Series(name="one", points=[(2, 0)])]).svg())


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 7, [0, 2, 4, 6]),
        (-0.4, 1.1, [0, 0.5, 1]),
        (0, 120_000, [0, 50_000, 100_000]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, wanted: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(wanted)


def test_a_staircase_holds_each_value_until_the_next() -> None:
    assert stepped([(0, 0), (1, 0.5), (3, 1)]) == [(0, 0), (1, 0), (1, 0.5), (3, 0.5), (3, 1)]


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.25, "0.25"), (1_500, "1.5k"), (2_000_000, "2M")])
def test_labels_are_short(value: float, text: str) -> None:
    assert label(value) == text
