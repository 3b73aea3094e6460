"""A floor as a process: `python -m bench.floors.NAME`, spoken to line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.errors import BenchFailed
from bench.interrupts import interrupts
from bench.processes import kill, spawn, tree


class BareProcess:
    """Starts at once, says "ready" when it is; leaving the block ends it and whatever it forked."""

    def __init__(self, floor: str, *args: object, cwd: Path) -> None:
        self._floor = floor
        command = [sys.executable, "-m", f"bench.floors.{floor}", *map(str, args)]
        self._process = spawn(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def pid(self) -> int:
        """Of the process itself."""
        return self._process.pid

    def ready(self) -> Self:
        """Wait until it is."""
        if (said := self.hear()) != "ready":
            raise BenchFailed(f"the floor {self._floor} said {said!r} instead of being ready")
        return self

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """The next thing it says. Raises BenchFailed when it has ended."""
        assert self._process.stdout
        with interrupts.waiting():
            line = self._process.stdout.readline()
        if not line:
            raise BenchFailed(f"the floor {self._floor} ended with {self._process.wait()}")
        return json.loads(line)

    def end(self, signal_number: int) -> None:
        """Send a signal and wait for the end."""
        self._process.send_signal(signal_number)
        self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        kill(tree(self.pid) if self._process.poll() is None else ())
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
