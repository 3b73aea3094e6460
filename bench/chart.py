"""A chart as SVG: lines or steps, linear or logarithmic in x, from 0 in y. Text only; no library draws so little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 20, 64, 52
COLOURS: Final = ("#1f6feb", "#d1570a", "#2e8540", "#8250df")
TICKS: Final = 5

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line and what it is called."""

    name: str
    points: Sequence[Point]
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What is drawn. `steps`: a value holds until the next one. `log`: x is logarithmic and above 0."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log: bool = False
    steps: bool = False
    x_ticks: Sequence[float] = ()

    def svg(self) -> str:
        """The whole file."""
        body = [*self._frame(), *(part for at, one in enumerate(self.series) for part in self._draw(at, one))]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="sans-serif" font-size="13">\n'
            f'<title>{escape(self.title)}</title>\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n'
            + "\n".join(body)
            + "\n</svg>\n"
        )

    def _frame(self) -> list[str]:
        parts = [_text(LEFT, 22, self.title, size=16), _text(WIDTH - RIGHT, HEIGHT - 10, self.x, anchor="end")]
        parts.append(_text(LEFT, TOP - 8, self.y, colour="#57606a"))
        for value in ticks(0, self._highest()):
            at = self._down(value)
            parts.append(_line([(LEFT, at), (WIDTH - RIGHT, at)], colour="#d0d7de", width=1))
            parts.append(_text(LEFT - 8, at + 4, label(value), anchor="end"))
        for value in self.x_ticks or ticks(*self._span()):
            parts.append(_text(self._across(value), HEIGHT - BOTTOM + 20, label(value), anchor="middle"))
        return parts

    def _draw(self, at: int, series: Series) -> list[str]:
        colour = COLOURS[at % len(COLOURS)]
        points = stepped(series.points) if self.steps else list(series.points)
        places = [(self._across(x), self._down(y)) for x, y in points]
        parts = [_line(places, colour=colour, width=2, dashed=series.dashed)]
        if not self.steps:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        # The legend is a row of names in the colours of their lines.
        share = (WIDTH - RIGHT - LEFT) / len(self.series)
        return [*parts, _text(LEFT + at * share, 42, f"{'╌' if series.dashed else '━'} {series.name}", colour=colour)]

    def _span(self) -> Point:
        values = [*self.x_ticks, *(x for series in self.series for x, _ in series.points)]
        return min(values), max(values)

    def _highest(self) -> float:
        return max(y for series in self.series for _, y in series.points) or 1.0

    def _across(self, x: float) -> float:
        low, high = self._span()
        if self.log:
            low, high, x = math.log(low), math.log(high), math.log(x)
        return LEFT + (WIDTH - RIGHT - LEFT) * ((x - low) / (high - low) if high > low else 0.5)

    def _down(self, y: float) -> float:
        top = max(self._highest(), ticks(0, self._highest())[-1])
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * y / top


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that cover a span."""
    rough = (high - low) / TICKS or 1.0
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    return [step * number for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def stepped(points: Sequence[Point]) -> list[Point]:
    """The corners of a staircase through these points."""
    corners = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        corners += [(x, before), (x, y)]
    return corners


def label(value: float) -> str:
    """Short: 1.5k, 2M, 0.25."""
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:.3g}"


def _line(places: Sequence[Point], *, colour: str, width: int, dashed: bool = False) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, colour: str = "#24292f") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f"<text {place}>{escape(text)}</text>"
