"""File locks: who holds them, and that letting go twice takes nothing from others."""

import os
from pathlib import Path

import pytest

from stoker.embedded import locks
from stoker.embedded.locks import Holding


def test_holding_tells_shared_from_exclusive(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert locks.holding(path) is Holding.NOBODY
    assert not path.exists()
    with locks.shared(path), locks.shared(path):
        assert locks.holding(path) is Holding.SHARED
        assert locks.try_exclusive(path) is None
    with locks.exclusive(path):
        assert locks.holding(path) is Holding.EXCLUSIVE
    assert locks.holding(path) is Holding.NOBODY


def test_a_lock_released_twice_closes_nothing_else(tmp_path: Path) -> None:
    first = locks.shared(tmp_path / "lock")
    first.release()
    with locks.shared(tmp_path / "lock") as second:
        assert second.fd == first.fd
        first.release()
        assert locks.holding(tmp_path / "lock") is Holding.SHARED


def test_a_lock_file_is_private_and_never_a_link(tmp_path: Path) -> None:
    with locks.exclusive(tmp_path / "lock") as held:
        assert os.fstat(held.fd).st_mode & 0o777 == 0o600
        assert not os.get_inheritable(held.fd)
    (tmp_path / "link").symlink_to(tmp_path / "lock")
    with pytest.raises(OSError, match="symbolic links"):
        locks.shared(tmp_path / "link")
