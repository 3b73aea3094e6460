"""What every figure measures with: a directory, a database, supervisors, bare processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import stoker
from bench.bare import BareProcess
from bench.database import Database, fresh_database, server, temporary_directory
from bench.errors import BenchFailed
from bench.interrupts import interrupts
from bench.scale import Scale
from bench.supervising import Supervisor


class Rig:
    """Everything it starts belongs to a block and is gone at the end of it."""

    def __init__(self, *, directory: Path, server_url: str, db: Database, scale: Scale) -> None:
        self.directory = directory
        self.db = db
        self.scale = scale
        self._server_url = server_url

    def supervisor(self, queues: str, **settings: object) -> Supervisor:
        """Started with these settings, not yet ready."""
        return Supervisor(self.directory, self.db.url, queues=queues, settings=settings)

    def bare(self, floor: str, *args: object) -> BareProcess:
        """Started, not yet ready."""
        return BareProcess(floor, *args, cwd=self.directory)

    @contextmanager
    def elsewhere(self) -> Iterator[Rig]:
        """The same with another database, which nobody enqueues into."""
        with fresh_database(self._server_url) as db:
            yield Rig(directory=self.directory, server_url=self._server_url, db=db, scale=self.scale)


@contextmanager
def rigged(scale: Scale, database_url: str | None = None) -> Iterator[Rig]:
    """A rig whose process enqueues into its database."""
    with (
        temporary_directory() as directory,
        server(directory, database_url) as url,
        fresh_database(url) as db,
    ):
        stoker.configure(database_url=db.url)
        yield Rig(directory=directory, server_url=url, db=db, scale=scale)


def until(fact: Callable[[], bool], *, within: float, every: float) -> None:
    """Ask again and again. Raises BenchFailed when the answer stays no."""
    deadline = time.monotonic() + within
    while not fact():
        if time.monotonic() > deadline:
            raise BenchFailed(f"not within {within:g} s: {fact}")
        with interrupts.waiting():
            time.sleep(every)
