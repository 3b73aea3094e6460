"""A supervisor that serves short jobs, and what its tests ask of it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stoker.drivers.base import NewJob
from tests.effects import Effects
from tests.processes import Supervisor, running
from tests.side_table import Database
from tests.support import until


class Stage:
    """Supervisor, database and effects of one or more tests."""

    def __init__(self, supervisor: Supervisor, db: Database, effects: Effects, *, workers: int) -> None:
        self.supervisor = supervisor
        self.db = db
        self.effects = effects
        self.workers = workers

    def put(self, *payloads: dict[str, Any], name: str = "short", keys: str = "", **options: Any) -> list[int]:
        """All at once, in this order, with consecutive ids."""
        jobs = [
            NewJob(
                name=name,
                queue="default",
                payload=json.dumps(one),
                idempotency_key=f"{keys}{at}" if keys else None,
                **options,
            )
            for at, one in enumerate(payloads)
        ]
        ids = [stored.id for stored in self.db.driver.enqueue(jobs)]
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        return ids

    def warm(self, name: str = "short") -> None:
        """Until two workers, or the only one, hold jobs of that name by row locks."""
        self.effects.forget()

        def all_do() -> bool:
            # Long enough for the other worker to be woken before they are all taken.
            jobs = self.put(*[*[{"do": "nap", "s": 0.002}] * 9, {"do": "look"}] * 6, name=name)
            self.db.until_all_done(jobs)
            return len({one.pid for one in self.effects.all() if one.what == "locked"}) >= min(2, self.workers)

        until(all_do)
        self.effects.forget()

    def put_locked(
        self, *payloads: dict[str, Any], undo: Callable[[int], object], of: int = 0, name: str = "short", **options: Any
    ) -> list[int]:
        """Put them, and again if the one at `of`, which says how it is held, was leased: `undo` ends that one."""
        for _ in range(20):
            self.warm(name)
            ids = self.put(*payloads, name=name, **options)
            told = ids[of]
            if until(lambda one=told: self.effects.said(one))["locked"]:  # type: ignore[misc]
                return ids
            undo(told)
            self.until_none_is_left()
        raise AssertionError("twenty times in a row it was leased")

    def put_some_locked(self, *payloads: dict[str, Any], name: str = "short", keys: str = "") -> list[int]:
        """Put them and wait for their end, and again if each of them that says how it was held was leased."""
        for _ in range(20):
            self.warm(name)
            ids = self.put(*payloads, name=name, keys=keys)
            self.until_none_is_left()
            if self.effects.said(*ids)["locked"]:
                return ids
        raise AssertionError("twenty times in a row they were leased")

    def until_none_is_left(self) -> None:
        """Until the queue is empty."""
        left: list[Any] = []

        def none() -> bool:
            left[:] = self.db.conn.execute("select id, state, payload, error from stoker.jobs limit 5").fetchall()
            return not left

        until(none)

    def transactions(self) -> int:
        """How many transactions of workers are open."""
        return int(
            self.db.one(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name like 'stoker: worker%%' and state <> 'idle'"
            )
        )

    def column(self, query: Any, *params: Any) -> set[Any]:
        """The values of the only column, or the rows."""
        rows = self.db.conn.execute(query, params).fetchall()
        return {row[0] if len(row) == 1 else row for row in rows}


@contextmanager
def staged(
    directory: Path, db: Database, *, workers: int = 1, warm: bool = True, patient: bool = False, **env: str
) -> Iterator[Stage]:
    """A stage that is ready, its workers knowing by experience that the jobs are short.

    `patient`: a row lock becomes a lease ten times later than usual, on a machine that is ten times slower.
    """
    effects = Effects(directory)
    if patient:
        env["TEST_PATIENCE"] = "10"
    env = {"STOKER_APP": "tests.short_jobs", "STOKER_QUEUES": f"default={workers}", **effects.env, **env}
    with running(directory, env.pop("url", db.url), env) as supervisor:
        stage = Stage(supervisor, db, effects, workers=workers)
        if warm:
            stage.warm()
        yield stage
