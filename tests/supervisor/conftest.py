"""A supervisor over fake children, ended with everything it started."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.harness import Running
from tests.support import until


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a supervisor with these settings; its log is shown when the test fails."""
    started: list[Running] = []

    def begin(**settings: Any) -> Running:
        directory = tmp_path / str(len(started))
        directory.mkdir()
        started.append(Running(directory, **settings))
        return started[-1]

    yield begin
    for running in started:
        running.end()
        print(running.log())
    # What was killed takes a moment to be gone.
    until(lambda: not any(running.alive() for running in started))
