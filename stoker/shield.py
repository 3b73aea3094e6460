"""Keeps an unwinding interrupt out of Stoker's own calls: it is raised when the outermost of them ends."""

from __future__ import annotations

import threading
from types import TracebackType


class Shield(threading.local):
    """A re-entrant context manager, per thread. Only the main thread's matters: signals run nowhere else."""

    def __init__(self) -> None:
        self.depth = 0
        self.pending: BaseException | None = None

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.depth -= 1
        if self.depth == 0 and self.pending is not None:
            pending, self.pending = self.pending, None
            raise pending


shielded = Shield()
