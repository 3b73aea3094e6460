"""Acquiring and sharing: who starts the server, who joins it, when it stops."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from stoker import embedded
from stoker.embedded.errors import OptionsInvalid, RootUnusable, StartFailed
from stoker.embedded.paths import Layout
from tests.embedded.users import EXEC, OtherUser, execute, guardian_pid, postmaster_pid, processes_of, query
from tests.support import until

NO_FSYNC = {"fsync": "off"}
StartUser = Callable[..., OtherUser]


def test_a_cold_start_makes_a_durable_cluster_with_the_database(cold_root: Path) -> None:
    with closing(embedded.acquire(cold_root)) as server:
        assert query(server.url, "SELECT current_database()") == "stoker"
        assert query(server.url, "SELECT current_user") == "postgres"
        assert query(server.url, "SHOW fsync") == "on"
        assert query(server.url, "SHOW synchronous_commit") == "on"
        assert query(server.url, "SHOW max_connections") == "200"
        assert query(server.url, "SHOW listen_addresses") == ""
        assert embedded.running_url(cold_root) == server.url
        assert (server.bin / "postgres").exists()
    assert embedded.wait_until_stopped(cold_root)
    assert embedded.running_url(cold_root) is None


def test_it_stops_with_the_last_user_and_keeps_the_data(root: Path, other_user: StartUser) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as first:
        execute(first.url, "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 7 AS n")
        second = other_user(root)
        assert second.url() == first.url
    second_pid = postmaster_pid(root)
    assert query(first.url, "SELECT n FROM kept") == 7
    assert postmaster_pid(root) == second_pid
    second.leave()
    assert embedded.wait_until_stopped(root)
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as third:
        assert query(third.url, "SELECT n FROM kept") == 7


def test_closing_twice_gives_nobody_elses_share_back(root: Path) -> None:
    first = embedded.acquire(root, settings=NO_FSYNC)
    first.close()
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as second:
        first.close()
        os.fstat(second.lock_fd)
        assert query(second.url, "SELECT 1") == 1


def test_a_user_that_comes_while_it_stops_starts_it_again(root: Path) -> None:
    for _ in range(3):
        with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
            guardian = guardian_pid(root)
        assert guardian
        until(lambda: not (root / "cluster/data/postmaster.pid").exists())
        with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
            assert query(server.url, "SELECT 1") == 1
            assert guardian_pid(root) != guardian


def test_a_share_survives_exec_until_the_new_program_closes_it(root: Path, other_user: StartUser) -> None:
    user = other_user(root, code=EXEC)
    url = user.url()
    assert user.line() == "False"
    assert query(url, "SELECT 1") == 1
    user.leave()
    assert user.line() == "closed"
    assert embedded.wait_until_stopped(root)
    assert user.process.poll() is None


def test_settings_come_from_the_caller_and_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_PG_OPTIONS", "work_mem=5MB fsync=on")
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
        assert query(server.url, "SHOW work_mem") == "5MB"
        assert query(server.url, "SHOW fsync") == "off"


def test_nonsense_in_the_environment_is_named(cold_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_PG_OPTIONS", "fsync")
    with pytest.raises(OptionsInvalid, match="fsync"):
        embedded.acquire(cold_root)
    assert list(cold_root.iterdir()) == []


def acquire_with_port(root: Path) -> tuple[embedded.Server, int]:
    """A port that was free may be somebody else's by the time it is used."""
    for tries_left in reversed(range(5)):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        try:
            return embedded.acquire(root, port=port, settings=NO_FSYNC), port
        except StartFailed:
            if not tries_left:
                raise
    raise AssertionError


def test_tcp_is_open_only_on_request_and_only_with_a_password(root: Path) -> None:
    server, port = acquire_with_port(root)
    with closing(server):
        assert query(server.url, "SHOW listen_addresses") == "127.0.0.1"
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/stoker")
        with closing(embedded.acquire(root)) as joined:
            assert joined.url == server.url


@contextmanager
def moved_to(root: Path, *, lender: Path) -> Iterator[Path]:
    """A new root with the cluster of another one, which gets it back."""
    root.mkdir()
    (lender / "cluster").rename(root / "cluster")
    try:
        yield root
    finally:
        assert embedded.wait_until_stopped(root)
        (root / "cluster").rename(lender / "cluster")


def test_a_long_path_gets_a_short_socket_directory(root: Path, cold_root: Path) -> None:
    with (
        moved_to(cold_root / ("long" * 20), lender=root) as long_root,
        closing(embedded.acquire(long_root, settings=NO_FSYNC)) as server,
    ):
        assert query(server.url, "SELECT 1") == 1
        socket_dir = Path(query(server.url, "SHOW unix_socket_directories").strip('"'))
        assert socket_dir.parent == Path("/tmp")
        assert socket_dir.stat().st_mode & 0o777 == 0o700
    assert not socket_dir.exists()


def test_a_path_with_unusual_characters_works(root: Path, cold_root: Path) -> None:
    with (
        moved_to(cold_root / 'a b,"c"%20&d=ä', lender=root) as odd_root,
        closing(embedded.acquire(odd_root, settings=NO_FSYNC)) as server,
    ):
        assert query(server.url, "SELECT 1") == 1
        assert embedded.running_url(odd_root) == server.url


def test_somebody_elses_socket_directory_is_refused(root: Path, cold_root: Path, tmp_path: Path) -> None:
    with moved_to(cold_root / ("long" * 20), lender=root) as long_root:
        stolen = Layout(long_root).socket_dir
        stolen.symlink_to(tmp_path)
        try:
            with pytest.raises(StartFailed, match="is not a directory of uid"):
                embedded.acquire(long_root, settings=NO_FSYNC)
        finally:
            stolen.unlink()


def test_the_server_holds_nothing_of_its_client(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    monkeypatch.setenv("STOKER_DATABASE_URL", "postgresql://u:secret@h/d")
    with (tmp_path / "open").open("w") as mine:
        os.set_inheritable(mine.fileno(), True)
        with closing(embedded.acquire(root, settings=NO_FSYNC)):
            guardian, postmaster = psutil.Process(guardian_pid(root)), psutil.Process(postmaster_pid(root))
            for process in (guardian, postmaster):
                opened = {file.path for file in process.open_files()}
                assert mine.name not in opened
                assert str(root / "users.lock") not in opened
                assert Path(f"/proc/{process.pid}/fd/0").readlink() == Path("/dev/null")
                assert not {"NOTIFY_SOCKET", "STOKER_DATABASE_URL"} & set(process.environ())
                assert os.getsid(process.pid) != os.getsid(0)
            assert guardian.cmdline()[0] == "stoker: postgres guardian"
            assert guardian.ppid() != os.getpid()
            assert str(root / "guardian.lock") not in {file.path for file in postmaster.open_files()}


def test_a_server_that_will_not_start_says_why_and_leaves_nothing(root: Path) -> None:
    with pytest.raises(StartFailed, match="shared_buffers") as failed:
        embedded.acquire(root, settings={"shared_buffers": "lots"})
    assert failed.value.code == "STOKER_EMBEDDED_POSTGRES_FAILED"
    assert str(root / "log") in failed.value.fix
    until(lambda: not processes_of(root))
    with closing(embedded.acquire(root, settings=NO_FSYNC)) as server:
        assert query(server.url, "SELECT 1") == 1


def test_a_root_that_cannot_be_made_is_named(cold_root: Path) -> None:
    (cold_root / "file").write_text("")
    with pytest.raises(RootUnusable, match=str(cold_root / "file")):
        embedded.acquire(cold_root / "file" / "below")


def test_a_removed_root_takes_its_server_down(root: Path) -> None:
    with closing(embedded.acquire(root, settings=NO_FSYNC)):
        pids = [guardian_pid(root), postmaster_pid(root)]
        root.rename(root.with_name(f"{root.name}-moved"))
    moved = root.with_name(f"{root.name}-moved")
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids if pid))
    moved.rename(root)
