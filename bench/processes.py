"""Starting processes so that none outlives the benchmark, and what a tree of them weighs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import psutil

from worker_proc.linux import signal_on_parent_death

ROOT = Path(__file__).resolve().parents[1]


def spawn(
    command: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    dies_by: int = signal.SIGKILL,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, out of reach of the terminal's Ctrl-C, that gets `dies_by` with us."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}
    # An installed package has its bytecode: compiling it anew at every start would be measured as ours.
    plain.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(
        command,
        cwd=cwd,
        env={**plain, "PYTHONPATH": str(ROOT), **(env or {})},
        start_new_session=True,
        preexec_fn=lambda: signal_on_parent_death(dies_by),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def tree(pid: int) -> list[psutil.Process]:
    """A process and everything below it."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL those that are still there; psutil knows a recycled pid from the process it saw."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def pss_mb(pid: int) -> float:
    """The proportional set size of a tree in MB: a page that n processes share counts 1/n in each."""
    return sum(_pss_kb(process.pid) for process in tree(pid)) / 1024


def _pss_kb(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def cpu_ns(pid: int) -> int:
    """The processor time that the threads of a tree have used so far."""
    return sum(_task_ns(task) for process in tree(pid) for task in Path(f"/proc/{process.pid}/task").iterdir())


def _task_ns(task: Path) -> int:
    return int((task / "schedstat").read_text().split()[0])
