"""Shows how far the demo is: a bar on a terminal, a line now and then elsewhere."""

import sys
from types import TracebackType
from typing import Self

from rich import progress


class Progress:
    """A bar over a known number of files."""

    def __init__(self, *, total: int) -> None:
        self._total = total
        self._next_line = 0.1
        columns = (
            progress.TextColumn("files"),
            progress.BarColumn(None),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
        )
        self._bar = progress.Progress(*columns) if sys.stdout.isatty() else None
        self._task = self._bar.add_task("files", total=total) if self._bar else progress.TaskID(0)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, done: int) -> None:
        """So many are done."""
        if self._bar:
            self._bar.update(self._task, completed=done)
        elif done >= self._next_line * self._total:
            self.say(f"{done:,} of {self._total:,}")
            self._next_line += 0.1

    def say(self, text: str) -> None:
        """A line above the bar."""
        if self._bar:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, flush=True)
