"""The demo plays to its end and leaves nothing; its verdict notices every way of being wrong."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from examples.app import prepare
from examples.demo.stage import DemoFailed, Stage
from examples.demo.verdict import check_results
from stoker.database import connect
from tests.support import scaled

ROOT = Path(__file__).parents[2]


def test_it_plays_to_its_end_and_leaves_nothing(tmp_path: Path) -> None:
    # Not below pytest's folder: as root, PostgreSQL's user could not enter it.
    with tempfile.TemporaryDirectory(prefix="demo-") as temporary:
        Path(temporary).chmod(0o755)
        env = {**os.environ, "TMPDIR": temporary, "STOKER_PG_OPTIONS": "fsync=off"}
        played = subprocess.run(
            [sys.executable, "-m", "examples.demo", str(scaled(200, 3000))],
            cwd=ROOT, env=env, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert played.returncode == 0, played.stdout + played.stderr
        assert list(Path(temporary).iterdir()) == []
    assert "kill -9 " in played.stdout
    assert "none lost, none twice" in played.stdout
    assert "exit code 0" in played.stdout
    assert not [line for line in _command_lines() if temporary in line]


@pytest.fixture
def stage(database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """The tables of the example, without a supervisor."""
    conn = connect(database_url, name="tests")
    prepare(conn)
    conn.execute("truncate example_results, example_runs")
    yield Stage(cast(Any, None), conn, tmp_path / "log")
    conn.close()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files."""
    for name in ("a", "b"):
        (tmp_path / name).write_text("words words words")
    return [tmp_path / "a", tmp_path / "b"]


def save(conn: psycopg.Connection[Any], job_id: int, path: Path, *, wrong: str = "") -> None:
    conn.execute(
        "insert into example_results values (%s, %s, coalesce(nullif(%s, ''), encode(sha256(%s), 'hex')), %s, 9, '{}')",
        (job_id, str(path), wrong, path.read_bytes(), path.stat().st_size),
    )


def test_the_verdict_accepts_each_file_once(stage: Stage, files: list[Path]) -> None:
    for job_id, path in enumerate(files):
        save(stage.conn, job_id, path)
    assert "2 files, none lost, none twice" in check_results(stage, files)


def test_the_verdict_notices_a_lost_file(stage: Stage, files: list[Path]) -> None:
    save(stage.conn, 1, files[0])
    with pytest.raises(DemoFailed, match="1 files are lost"):
        check_results(stage, files)


def test_the_verdict_notices_a_file_that_was_counted_twice(stage: Stage, files: list[Path]) -> None:
    for job_id, path in enumerate([*files, files[0]]):
        save(stage.conn, job_id, path)
    with pytest.raises(DemoFailed, match="3 results of 2 different files"):
        check_results(stage, files)


def test_the_verdict_notices_a_wrong_hash(stage: Stage, files: list[Path]) -> None:
    save(stage.conn, 1, files[0])
    save(stage.conn, 2, files[1], wrong="0" * 64)
    with pytest.raises(DemoFailed, match="is wrong"):
        check_results(stage, files)


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
