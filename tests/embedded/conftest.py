"""Root directories that PostgreSQL's account can enter, and proof that no process is left in them."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker import embedded
from tests.embedded.users import OtherUser, processes_of
from tests.support import until


@pytest.fixture
def cold_root() -> Iterator[Path]:
    """An empty directory; pytest's own are closed to PostgreSQL's account when root runs the tests."""
    root = _new_directory()
    yield root
    _leave_no_process(root)
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def clusters() -> Iterator[list[Path]]:
    """Directories with a cluster that is down and was left usable by the test before: initdb is dear."""
    idle: list[Path] = []
    yield idle
    for root in idle:
        shutil.rmtree(root)


@pytest.fixture
def root(clusters: list[Path]) -> Iterator[Path]:
    """A directory with a cluster that is down."""
    if not clusters:
        clusters.append(_new_directory())
        embedded.acquire(clusters[0], settings={"fsync": "off"}).close()
        assert embedded.wait_until_stopped(clusters[0])
    root = clusters.pop()
    yield root
    _leave_no_process(root)
    clusters.append(root)


def _new_directory() -> Path:
    root = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp")).resolve()
    root.chmod(0o755)
    return root


def _leave_no_process(root: Path) -> None:
    try:
        until(lambda: not processes_of(root))
    except AssertionError:
        embedded.stop(root, force=True)
        raise


@pytest.fixture
def other_user() -> Iterator[Callable[..., OtherUser]]:
    """Starts processes that use a server; ends them after the test."""
    users: list[OtherUser] = []

    def start(root: Path, **args: Any) -> OtherUser:
        users.append(OtherUser(root, **args))
        return users[-1]

    yield start
    for user in users:
        user.close()
