"""Commands work with a standard output that is closed, broken, full or not UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from stoker.console import main; main()"]
BARE = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}


def test_a_reader_that_has_gone_ends_a_command_quietly(database_url: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        done = subprocess.run(
            [*COMMAND, "jobs", "ls", "--json", "--database-url", database_url],
            stdout=gone, stderr=subprocess.PIPE, cwd=tmp_path, env=BARE, text=True, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")


def test_a_full_disk_is_told(database_url: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "jobs", "ls", "--database-url", database_url],
            stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, env=BARE, text=True, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "Standard output cannot be written: No space left on device.\n")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_do_no_harm(database_url: str, tmp_path: Path, closed: str) -> None:
    script = f'"$0" -c "from stoker.console import main; main()" "$@" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, "enqueue", "x", "--database-url", database_url],
        cwd=tmp_path, env=BARE, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0


def test_an_old_locale_shows_what_it_can(database_url: str, tmp_path: Path) -> None:
    env = {**BARE, "PYTHONIOENCODING": "ascii"}
    for arguments in (["enqueue", "x", '{"name": "Zoë"}'], ["jobs", "ls"], ["jobs", "ls", "--json"]):
        done = subprocess.run(
            [*COMMAND, *arguments, "--database-url", database_url],
            cwd=tmp_path, env=env, capture_output=True, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
    assert "Zoë".encode() in done.stdout
