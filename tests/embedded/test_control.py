"""The server by hand: `stoker pg start`, `stop`, `url`, `psql`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker import embedded
from stoker.console.entry import stoker
from tests.embedded.users import OtherUser, query
from tests.support import until

StartUser = Callable[..., OtherUser]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_PG_OPTIONS", "fsync=off")


def pg(*args: str | Path) -> tuple[int, str]:
    # Not the group alone: whoever asks it first decides for the process which options it thinks it has.
    done = CliRunner().invoke(stoker, ["pg", *map(str, args)], catch_exceptions=False)
    return done.exit_code, done.output.strip()


def test_a_started_server_stays_up_until_it_is_stopped(root: Path, other_user: StartUser) -> None:
    assert pg("url", "--root", root) == (1, f"No server runs in {root}. Start one: stoker pg start")
    code, url = pg("start", "--root", root)
    assert code == 0
    assert pg("start", "--root", root) == (0, url)
    user = other_user(root)
    assert user.url() == url
    user.leave()
    user.process.wait()
    with pytest.raises(AssertionError):
        until(lambda: embedded.running_url(root) is None, within=1)
    assert pg("url", "--root", root) == (0, url)
    assert query(url, "SELECT 1") == 1
    assert pg("stop", "--root", root) == (0, f"Stopped the server in {root}.")
    assert pg("stop", "--root", root) == (0, f"No server runs in {root}.")
    assert pg("url", "--root", root)[0] == 1


def test_url_starts_it_on_request(root: Path) -> None:
    code, url = pg("url", "--start", "--root", root)
    assert code == 0
    assert query(url, "SELECT 1") == 1
    assert pg("stop", "--root", root)[0] == 0


def test_stop_leaves_a_used_server_up_and_names_its_users(root: Path, other_user: StartUser) -> None:
    user = other_user(root)
    url = user.url()
    assert pg("start", "--root", root) == (0, url)
    code, told = pg("stop", "--root", root)
    assert code == 1
    assert f"pid {user.pid} (" in told
    assert "--force" in told
    assert query(url, "SELECT 1") == 1
    assert pg("stop", "--force", "--root", root) == (0, f"Stopped the server in {root}.")


def test_a_hold_ends_with_the_guardian_that_was_asked_for_it(root: Path) -> None:
    pg("start", "--root", root)
    assert pg("stop", "--force", "--root", root)[0] == 0
    (root / "hold").touch()
    embedded.acquire(root).close()
    assert embedded.wait_until_stopped(root)


def test_psql_runs_against_it_and_keeps_it_up(root: Path) -> None:
    code = "import sys; from stoker.console.pg import pg; pg()"
    ask = ["-At", "-c", "SELECT current_database(), pg_sleep(1)"]
    done = subprocess.run(
        [sys.executable, "-c", code, "psql", "--root", str(root), *ask], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "stoker|"), done.stderr
    assert embedded.wait_until_stopped(root)


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert pg("url", "--root", tmp_path / "new")[0] == 1
    assert pg("stop", "--root", tmp_path / "new") == (0, f"No server runs in {tmp_path / 'new'}.")
    assert not (tmp_path / "new").exists()


def test_users_of_other_roots_are_not_named(root: Path) -> None:
    held = embedded.acquire(root)
    try:
        report = embedded.stop(root)
        assert (report.was_running, report.stopped, report.in_use) == (True, False, True)
        assert os.getpid() not in {user.pid for user in report.users}
    finally:
        held.close()
    assert embedded.wait_until_stopped(root)
