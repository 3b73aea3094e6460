"""The file lock of a boot: what it proves, and what proves nothing."""

import os
from pathlib import Path

from tests.keeper.rig import HostLockFile
from worker_proc.lock_proof import freed_lock, remove_lock


def inode(path: Path) -> str:
    found = path.stat()
    return f"{found.st_dev}:{found.st_ino}"


def test_a_free_lock_is_held_during_the_judgement_and_may_be_removed_by_it(tmp_path: Path) -> None:
    lock = HostLockFile(tmp_path / "lock")
    lock.free()
    with freed_lock(str(lock.path), inode(lock.path)) as free:
        assert free
        with freed_lock(str(lock.path), inode(lock.path)) as second:
            assert not second
        remove_lock(str(lock.path))
    assert not lock.path.exists()


def test_a_file_that_is_gone_by_then_is_no_trouble(tmp_path: Path) -> None:
    remove_lock(str(tmp_path / "lock"))


def test_a_held_lock_proves_nothing_and_stays(tmp_path: Path) -> None:
    lock = HostLockFile(tmp_path / "lock")
    with freed_lock(str(lock.path), inode(lock.path)) as free:
        assert not free
    assert lock.path.exists()
    lock.free()


def test_one_inherited_descriptor_is_enough_to_hold_it(tmp_path: Path) -> None:
    lock = HostLockFile(tmp_path / "lock")
    inherited = os.dup(lock.fd)
    lock.free()
    with freed_lock(str(lock.path), inode(lock.path)) as free:
        assert not free
    os.close(inherited)


def test_another_file_of_that_name_a_missing_one_and_a_link_prove_nothing(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    link = tmp_path / "link"
    link.symlink_to(other)
    for path, number in (
        (other, "1:1"),
        (tmp_path / "missing", "1:1"),
        (link, inode(other)),
        (tmp_path, inode(tmp_path)),
    ):
        with freed_lock(str(path), number) as free:
            assert not free
    assert other.exists() and link.is_symlink()
