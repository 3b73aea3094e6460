"""Pieces of pure-Python work that last as long as asked."""

from __future__ import annotations

import time
from typing import Final

TRIED: Final = 200_000
TRIES: Final = 5


def burn(turns: int) -> int:
    """A linear congruential generator: touches no memory and makes no system call."""
    value = 1
    for _ in range(turns):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return value


def turns_for(seconds: float) -> int:
    """How many turns take that long here, going by the fastest of a few tries."""
    return max(1, round(TRIED * seconds / min(_time(TRIED) for _ in range(TRIES))))


def _time(turns: int) -> float:
    began = time.perf_counter()
    burn(turns)
    return time.perf_counter() - began
