"""What tests of every area share."""

import inspect
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FULL_SCALE = os.environ.get("STOKER_TEST_SCALE") == "full"

# Long enough for anything that happens at all, on a machine that has other things to do.
HANGS_S = 60.0
# From look to look, while it is young and when it has been waited for.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.05
# Much sooner than by a drain that waits for its deadline of 25 s or more, later than any stall of the machine.
SOON_S = 20.0


def until(fact: Callable[[], T], *, within: float = HANGS_S) -> T:
    """Wait until `fact()` is truthy and return it; AssertionError after that many seconds.

    Without `within` the time is no promise, only the end of a test that hangs.
    """
    began = time.monotonic()
    looks = 1
    while not (seen := fact()):
        if (passed := time.monotonic() - began) >= within:
            raise AssertionError(failure(fact, seen, f"{within:g} s ({looks} looks in {passed:.1f} s)"))
        # Who waits must not take the processor from what is waited for: many looks are dear.
        time.sleep(min(_FIRST_PAUSE_S + passed / 50, _LONGEST_PAUSE_S))
        looks += 1
    return seen


def failure(fact: Callable[[], object], seen: object, time_given: str, **more: object) -> str:
    """What to tell of a fact that did not come true: its words, what it last was, what it knew."""
    try:
        lines, first = inspect.getsourcelines(fact)
        source = f"{inspect.getsourcefile(fact)}:{first}: {' '.join(' '.join(lines).split())}"
    except (OSError, TypeError):
        source = repr(fact)
    known = {**(inspect.getclosurevars(fact).nonlocals if inspect.isfunction(fact) else {}), **more}
    return f"not within {time_given}: {source}\nlast seen: {seen!r}\nwith: {known!r}"


def fastest(measure: Callable[[], float], *, below: float, tries: int = 5) -> None:
    """Assert that `measure()`, in seconds, gets below the bound: what else a machine does only ever adds to it.

    What is promised only to those who get the processor in time may answer `math.inf` where it was not kept.
    """
    took: list[float] = []
    while not took or min(took) >= below:
        assert len(took) < tries, f"never below {below:g} s: {took}"
        took.append(measure())


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that others write: one may be seen before its end is."""
    return path.read_text(errors="replace").split("\n")[:-1]


def scaled(sample: int, full: int) -> int:
    """How many trials of a repeated test: a sample, or all of them with STOKER_TEST_SCALE=full."""
    return full if FULL_SCALE else sample
