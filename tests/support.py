"""What tests of every area share."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

FULL_SCALE = os.environ.get("STOKER_TEST_SCALE") == "full"


def until(fact: Callable[[], T], *, within: float = 5.0) -> T:
    """Wait until `fact()` is truthy and return it; AssertionError after that many seconds."""
    deadline = time.monotonic() + within
    while not (seen := fact()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {fact}, last seen {seen!r}"
        time.sleep(0.01)
    return seen


def scaled(sample: int, full: int) -> int:
    """How many trials of a repeated test: a sample, or all of them with STOKER_TEST_SCALE=full."""
    return full if FULL_SCALE else sample
