"""Whoever is killed, at whatever moment: nothing stays behind, and the next user has a server with its data."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from stoker import embedded
from tests.embedded.users import OtherUser, execute, guardian_pid, postmaster_pid, processes_of, query
from tests.support import scaled, until

NO_FSYNC = {"fsync": "off"}
StartUser = Callable[..., OtherUser]


def gone(pid: int) -> bool:
    """Ended; a zombie waits for its parent and counts as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def store(url: str, number: int) -> None:
    execute(url, f"DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT {number} AS n")


def stored(url: str) -> int:
    return int(query(url, "SELECT n FROM kept"))


def kill_guardian(root: Path) -> None:
    pid = until(lambda: guardian_pid(root))
    assert pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))  # while it dies its server can still be joined


def test_killing_the_only_user_stops_the_server(root: Path, other_user: StartUser) -> None:
    user = other_user(root)
    store(user.url(), 1)
    user.kill()
    assert embedded.wait_until_stopped(root)
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
        assert stored(server.url) == 1


def test_killing_the_guardian_takes_the_server_down_and_the_next_user_brings_it_back(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as first:
        store(first.url, 2)
        before = postmaster_pid(root)
        kill_guardian(root)
        until(lambda: gone(before))
        with closing(embedded.acquire(root, settings=NO_FSYNC)):
            assert stored(first.url) == 2
            assert postmaster_pid(root) != before


def test_the_next_user_need_not_wait_for_a_killed_guardian_to_be_gone(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as first:
        store(first.url, 3)
        for _ in range(scaled(2, 20)):
            kill_guardian(root)
            with closing(embedded.acquire(root, settings=NO_FSYNC)):
                assert stored(first.url) == 3


def test_a_killed_server_is_started_again_under_its_users(root: Path) -> None:
    with closing(embedded.acquire(root)) as server:
        store(server.url, 4)
        before, guardian = postmaster_pid(root), guardian_pid(root)
        os.kill(before, signal.SIGKILL)
        until(lambda: embedded.running_url(root) and postmaster_pid(root) != before)
        assert stored(server.url) == 4
        assert guardian_pid(root) == guardian


def test_a_server_that_keeps_crashing_is_given_up_and_the_next_user_tries_afresh(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)):
        guardian = guardian_pid(root)
        assert guardian
        killed = 0
        while until(lambda: gone(guardian) or embedded.running_url(root)) is not True:
            os.kill(postmaster_pid(root), signal.SIGKILL)
            until(lambda: embedded.running_url(root) is None)
            killed += 1
        assert killed > 1
        with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
            assert query(server.url, "SELECT 1") == 1


def test_a_server_stopped_on_purpose_is_not_started_again(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)):
        os.kill(postmaster_pid(root), signal.SIGINT)
        assert embedded.wait_until_stopped(root)


def test_everything_killed_at_once(root: Path, other_user: StartUser) -> None:
    user = other_user(root)
    store(user.url(), 5)
    server = postmaster_pid(root)
    kill_guardian(root)
    os.kill(server, signal.SIGKILL)
    user.kill()
    until(lambda: gone(server))
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as after:
        assert stored(after.url) == 5


def test_a_pid_file_whose_pid_lives_again_as_something_else(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
        store(server.url, 6)
        killed = postmaster_pid(root)
        kill_guardian(root)
        os.kill(killed, signal.SIGKILL)
        until(lambda: gone(killed))
    left = root / "cluster/data/postmaster.pid"
    rest = left.read_text().partition("\n")[2]
    with subprocess.Popen(["sleep", "60"]) as unrelated:
        left.write_text(f"{unrelated.pid}\n{rest}")
        with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
            assert stored(server.url) == 6
        assert unrelated.poll() is None
        unrelated.kill()


@pytest.mark.parametrize("content", ["", "garbage\n", "1\n"])
def test_a_damaged_pid_file_is_no_obstacle(root: Path, content: str) -> None:
    left = root / "cluster/data/postmaster.pid"
    left.write_text(content)
    left.chmod(0o600)
    owner = (root / "cluster/data").stat()
    os.chown(left, owner.st_uid, owner.st_gid)
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
        assert query(server.url, "SELECT 1") == 1


def test_a_root_shared_by_clients_that_start_together_has_one_server(cold_root: Path, other_user: StartUser) -> None:
    users = [other_user(cold_root) for _ in range(4)]
    urls = {user.url() for user in users}
    assert len(urls) == 1
    ready = "database system is ready to accept connections"
    assert (cold_root / "log").read_text().count(ready) == 1
    assert query(urls.pop(), "SELECT 1") == 1


def test_clients_that_come_and_go_together(root: Path, other_user: StartUser) -> None:
    for _ in range(scaled(2, 20)):
        users = [other_user(root) for _ in range(4)]
        for user in users:
            assert query(user.url(), "SELECT 1") == 1
            user.leave()
    assert embedded.wait_until_stopped(root)


def test_an_interrupted_initdb_is_never_taken_for_a_cluster(cold_root: Path, other_user: StartUser) -> None:
    user = other_user(cold_root)
    until(lambda: list(cold_root.glob("cluster/unfinished-*/PG_VERSION")))
    kill_guardian(cold_root)
    user.process.wait()
    assert not (cold_root / "cluster/data").exists()
    with closing(embedded.acquire(cold_root, settings=NO_FSYNC)) as server:
        assert query(server.url, "SELECT current_database()") == "stoker"
        assert [path.name for path in (cold_root / "cluster").iterdir()] == ["data"]


@pytest.mark.parametrize("seed", range(scaled(2, 40)))
def test_everybody_killed_at_a_random_moment_of_the_start(root: Path, other_user: StartUser, seed: int) -> None:
    moment = random.Random(seed).uniform(0.05, 0.6)
    user = other_user(root)
    with suppress(subprocess.TimeoutExpired):
        user.process.wait(moment)
    with suppress(AssertionError, ProcessLookupError):
        pid = guardian_pid(root)
        assert pid
        os.kill(pid, signal.SIGKILL)
    user.kill()
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
        assert query(server.url, "SELECT 1") == 1


def test_a_user_killed_while_it_starts_the_server_leaves_nothing(root: Path, other_user: StartUser) -> None:
    user = other_user(root)
    until(lambda: guardian_pid(root) and processes_of(root))
    user.kill()
    assert embedded.wait_until_stopped(root)


def test_a_terminated_guardian_stops_its_server(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)):
        server, guardian = postmaster_pid(root), guardian_pid(root)
        assert guardian
        os.kill(guardian, signal.SIGTERM)
        until(lambda: gone(server) and gone(guardian))
    assert not (root / "cluster/data/postmaster.pid").exists()


def test_a_client_forked_from_a_busy_program_is_not_kept_alive_by_it(root: Path) -> None:
    """A share is this process's: a program started with `subprocess` does not prolong it."""
    with closing(embedded.acquire(root, settings=NO_FSYNC)):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    assert embedded.wait_until_stopped(root)
    child.communicate(b"\n")
