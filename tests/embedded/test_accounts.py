"""As root and as an ordinary user: who runs PostgreSQL, and which files it can reach."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import stoker
from stoker import embedded
from stoker.embedded.binaries import find_binaries
from stoker.embedded.errors import RootUnusable
from tests.embedded.users import OtherUser, postmaster_pid, query
from tests.support import until

NO_FSYNC = {"fsync": "off"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def nobody() -> dict[str, Any]:
    """Arguments that start a process of an ordinary user, with a Python in its reach (ours may be below /root)."""
    uid = pwd.getpwnam("nobody").pw_uid
    home, packages = Path(stoker.__file__).parents[1], sysconfig.get_path("purelib")
    environment = {**os.environ, "PYTHONPATH": f"{home}:{packages}", "HOME": "/nonexistent"}
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        args = {"user": uid, "group": uid, "extra_groups": [], "cwd": "/", "env": environment}
        with suppress(OSError):
            if subprocess.run([python, "-c", "import stoker, psycopg"], **args, check=False).returncode == 0:
                return {**args, "python": python}
    pytest.skip("no Python with our packages is in the reach of nobody")


@pytest.fixture
def closed_directory() -> Iterator[Path]:
    """Only its owner may enter."""
    path = Path(tempfile.mkdtemp(prefix="stoker-closed-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@as_root
def test_root_runs_it_as_somebody_else_and_keeps_its_own_files(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)):
        account = psutil.Process(postmaster_pid(root)).uids().effective
        assert account != 0
        assert {root.joinpath(name).stat().st_uid for name in ("cluster", "cluster/data", "run")} == {account}
        assert {root.joinpath(name).stat().st_uid for name in ("log", "users.lock", "guardian.lock")} == {0}


@as_root
def test_an_ordinary_user_runs_it_as_itself(
    cold_root: Path, nobody: dict[str, Any], other_user: Callable[..., OtherUser]
) -> None:
    uid = nobody["user"]
    os.chown(cold_root, uid, -1)
    user = other_user(cold_root, **nobody)
    assert query(user.url(), "SELECT current_database()") == "stoker"
    assert psutil.Process(postmaster_pid(cold_root)).uids().effective == uid
    assert all(path.stat().st_uid == uid for path in cold_root.iterdir())
    with closing(embedded.acquire(cold_root)) as joined:  # root may share what runs
        user.leave()
        assert query(joined.url, "SELECT 1") == 1
    assert embedded.wait_until_stopped(cold_root)
    with pytest.raises(RootUnusable, match=f"belongs to uid {uid}"):
        embedded.acquire(cold_root)


@as_root
def test_an_ordinary_user_is_told_that_the_root_is_not_its_own(
    root: Path, nobody: dict[str, Any], other_user: Callable[..., OtherUser]
) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)):
        user = other_user(root, **nobody, stderr=subprocess.PIPE)
        _, told = user.process.communicate()
    assert "STOKER_EMBEDDED_POSTGRES_FAILED" in told
    assert "Permission denied" in told


@as_root
def test_a_root_that_the_account_cannot_enter_is_refused_with_a_fix(closed_directory: Path) -> None:
    with pytest.raises(RootUnusable, match="may not enter") as refused:
        embedded.acquire(closed_directory / "root")
    assert "/var/lib/stoker" in refused.value.fix


@as_root
def test_programs_out_of_reach_are_copied(root: Path, closed_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = find_binaries().parents[1]
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            (closed_directory / part.name).symlink_to(part)
    monkeypatch.setenv("STOKER_PG_BIN", str(closed_directory / package.name / find_binaries().parent.name / "bin"))
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
        assert query(server.url, "SELECT 1") == 1
        assert server.bin.is_relative_to(root)
        with closing(embedded.acquire(root)) as second:
            assert second.bin == server.bin
    assert embedded.wait_until_stopped(root)
    assert len(list(root.glob("bin-*"))) == 1
    for copy in root.glob("bin-*"):
        until(lambda copy=copy: shutil.rmtree(copy) is None)
