"""Workloads can be measured, and nothing of the benchmark is left behind. No test looks at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import psycopg
import pytest
from psycopg import sql

from bench.publish import BEGIN, END, publish
from bench.report import HEAD
from bench.workloads import WORKLOADS
from stoker import embedded
from tests.support import FULL_SCALE, SOON_S, until

ROOT = Path(__file__).resolve().parents[2]
# One point of a curve.
READ_AS = {"batches": "batch"}
MEASURED = list(WORKLOADS) if FULL_SCALE else ["noop", "enqueue", "pickup", "storage", "idle"]


class Bench:
    """`python -m bench` on the server of this test run, with temporary files where the test can see them."""

    def __init__(self, server_url: str, directory: Path) -> None:
        self.mark = uuid.uuid4().hex
        self._server_url = server_url
        self.temporary, self.results = directory / "tmp", directory / "results"
        self.temporary.mkdir()
        self._command = [sys.executable, "-m", "bench", "--database-url", server_url, "--results", str(self.results)]
        # setproctitle would use the room of the environment, where the mark is.
        self._env = {**os.environ, "TMPDIR": str(self.temporary), "TEST_MARK": self.mark, "SPT_NOENV": "1"}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *arguments],
            cwd=ROOT,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        with self.start(*arguments) as process:
            said, _ = process.communicate(timeout=180)
        self.has_left_nothing(process.pid)
        return process.returncode, said

    def has_left_nothing(self, pid: int) -> None:
        # What it killed takes a moment to be gone.
        until(lambda: not self.processes())
        assert not list(self.temporary.iterdir())
        assert not self.databases(pid)

    def databases(self, pid: int) -> list[str]:
        with psycopg.connect(self._server_url) as conn:
            rows = conn.execute("select datname from pg_database where datname like %s", (f"stoker_bench_{pid}_%",))
            return [row[0] for row in rows]

    def result(self) -> dict[str, Any]:
        (path,) = self.results.iterdir()
        result: dict[str, Any] = json.loads(path.read_text())
        return result

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if _mark_of(process) == self.mark]


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("TEST_MARK") if process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


@pytest.fixture
def bench(server: embedded.Server, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(server.url, tmp_path)
    yield bench
    for process in bench.processes():
        process.kill()


def test_workloads_can_be_measured_and_published(bench: Bench, tmp_path: Path) -> None:
    code, said = bench.run("--smoke", *(part for name in MEASURED for part in ("--only", name)))
    assert code == 0, said
    result = bench.result()
    assert result["failed"] == {}
    assert result["workloads"] == MEASURED
    assert result["machine"]["postgresql_settings"]["synchronous_commit"] == "on"
    readings = {reading["name"]: reading for reading in result["readings"]}
    assert {name.partition(".")[0] for name in readings} == {READ_AS.get(name, name) for name in MEASURED}
    for reading in readings.values():
        assert reading["samples"]
        assert reading["what"] in said
        assert (reading["floor"] is None) == (not reading["floor_is"])
    assert readings["storage.dead"]["floor"] == pytest.approx(2, abs=0.1)

    # Its numbers mean nothing, so it has to claim to be more than it is.
    (bench.results / "another.json").write_text(json.dumps({**result, "scale": "quick", "workloads": list(WORKLOADS)}))
    page = tmp_path / "performance.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\n## After\n")
    publish(bench.results, page)
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\n\nMeasured ")
    assert text.endswith(f"{END}\n\n## After\n")
    assert "old" not in text.splitlines()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == len(readings) + 2
    assert {line.count("|") for line in lines} == {len(HEAD) + 1}
    for name in ("processes", "latency"):
        assert f"](performance/{name}.svg)" in text
        ElementTree.parse(tmp_path / "performance" / f"{name}.svg")


def test_an_unknown_workload_is_refused(bench: Bench) -> None:
    code, said = bench.run("--only", "luck")
    assert code == 2
    assert "'noop'" in said


def test_an_unreachable_server_is_said_in_one_line(bench: Bench) -> None:
    code, said = bench.run("--smoke", "--only", "drain", "--database-url", "postgresql://127.0.0.1:1/none")
    assert code == 1
    assert "Traceback" not in said
    assert not bench.results.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(bench: Bench, number: signal.Signals) -> None:
    with bench.start("--quick", "--only", "noop") as process:
        until(lambda: list(bench.temporary.glob("*/supervisor.log")), within=60)
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    bench.has_left_nothing(process.pid)


def test_a_killed_run_leaves_no_process(bench: Bench, server: embedded.Server) -> None:
    with bench.start("--quick", "--only", "noop") as process:
        until(lambda: list(bench.temporary.glob("*/supervisor.log")), within=60)
        process.kill()
        process.communicate(timeout=60)
    until(lambda: not bench.processes(), within=SOON_S)
    with psycopg.connect(server.url, autocommit=True) as conn:
        for name in bench.databases(process.pid):
            conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
