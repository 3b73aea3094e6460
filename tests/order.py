"""In which order tests run, and which of them in one process: what is slow begins early, what is dear is made once."""

from functools import cache
from pathlib import Path

import pytest

# At the end of a run short tests are left, and all processes end at about the same time.
SLOW_FIRST = (
    "console/test_demo.py",
    "bench",
    "end_to_end/test_row_locks.py",
    "schema/test_steady_plans.py",
    "embedded",
    "end_to_end",
    "console/test_setup.py",
    "supervisor",
    "keeper",
    "console",
    "worker",
)
# Modules whose tests share a supervisor, a full table or the directory of a cluster.
SHARING = ("end_to_end/test_row_locks.py", "schema/test_steady_plans.py", "keeper/test_plans.py", "embedded")

_TESTS = Path(__file__).parent


def arrange(items: list[pytest.Item]) -> None:
    """Sort the modules; with `--dist loadgroup` the tests of a module that share something stay together."""
    items.sort(key=lambda item: _rank(item.path))
    for item in items:
        if _shares(item.path):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@cache
def _rank(module: Path) -> int:
    return next(
        (rank for rank, place in enumerate(SLOW_FIRST) if module.is_relative_to(_TESTS / place)), len(SLOW_FIRST)
    )


@cache
def _shares(module: Path) -> bool:
    return any(module.is_relative_to(_TESTS / place) for place in SHARING)
