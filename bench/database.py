"""The database of one run: on an embedded server with production settings, or new on a given one; gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bench.errors import BenchFailed
from stoker import embedded
from stoker.database import connect
from stoker.migrate import migrate

# As on a server that means it: nothing is faster than what a commit costs.
SETTINGS: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "512MB"}
_STORAGE: Final = "with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)"
# What the floors work on: the same columns, constraints and indexes, and a finished table cut into the same pieces.
_FLOOR: Final[LiteralString] = f"""
create schema bench;
create table bench.jobs (like stoker.jobs including all) {_STORAGE};
create table bench.finished (like stoker.finished including defaults) partition by list (state);
create index on bench.finished (id);
create table bench.finished_done partition of bench.finished for values in ('done') partition by range (finished_at);
create table bench.finished_done_default partition of bench.finished_done default;
create table bench.finished_done_now partition of bench.finished_done for values from ('2000-01-01') to ('3000-01-01');
"""
# As on a database that has been running: today's rows do not fall into the nets and are not moved out of them.
_DAYS: Final[LiteralString] = """
select stoker.attach_day(state, (now() at time zone 'UTC')::date + days)
from unnest(array['done', 'dead', 'cancelled']) state, generate_series(-1, 1) days
"""
# `every` 0: no marks.
_FILL: Final[LiteralString] = """
insert into {}.jobs (id, pos, queue, name, payload)
select n, n, 'default', 'noop',
       jsonb_build_object('id', n, 'note', repeat('x', 80))
       || case when %(every)s > 0 and at %% nullif(%(every)s, 0) = 0
               then jsonb_build_object('to', %(to)s::text, 'mark', at) else '{{}}'::jsonb end
from generate_series(1, %(jobs)s) at, lateral (select %(after)s::bigint + at as n) numbered
"""
_FILL_FINISHED: Final = """
insert into stoker.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state,
                             queue, name, payload)
select n, 1, now(), now(), 1, 20, 0, 0, 0, 'done', 'default', 'noop',
       jsonb_build_object('id', n, 'note', repeat('x', 80))
from generate_series(%(after)s::bigint + 1, %(after)s::bigint + %(rows)s) n
"""
_FILLED: Final = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('stoker', 'bench') and c.relkind = 'r' and c.relname <> 'meta' and pg_relation_size(c.oid) > 0
"""


class Database:
    """One connection of the benchmark's own to a database that nobody else uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.conn = connect(url, name="bench")

    def one(self, query: LiteralString, *params: Any) -> Any:
        """The first column of the first row."""
        row = self.conn.execute(query, params).fetchone()
        if row is None:
            raise BenchFailed(f"no answer to {query}")
        return row[0]

    def fill(self, schema: LiteralString, jobs: int, *, after: int = 0, to: str = "", every: int = 0) -> None:
        """Ready jobs of about 100 bytes with the ids behind `after`; every so many is marked, to report to a beacon."""
        self.conn.execute(_FILL.format(schema), {"jobs": jobs, "after": after, "to": to, "every": every})

    def fill_finished(self, rows: int, *, after: int) -> None:
        """Rows of jobs that are done."""
        self.conn.execute(_FILL_FINISHED, {"rows": rows, "after": after})

    def tidy(self, *, checkpoint: bool = True) -> None:
        """What a round starts from: known statistics, nothing dead, nothing waiting to be written."""
        self._at_filled("vacuum (analyze) {}")
        if checkpoint:
            self.conn.execute("checkpoint")

    def sessions(self) -> set[int]:
        """The backends that clients of this database have now."""
        return set(
            self.one(
                "select array_agg(pid) from pg_stat_activity"
                " where datname = current_database() and backend_type = 'client backend'"
            )
        )

    def wipe(self) -> None:
        """Empty every table of the product and of the floor. No supervisor may be running."""
        self._at_filled("truncate {}")

    def _at_filled(self, command: LiteralString) -> None:
        # By name: a finished table has a partition for each state and day, and most of them are empty.
        tables = self.conn.execute(_FILLED).fetchall()
        if tables:
            names = sql.SQL(", ").join(sql.Identifier(schema, name) for schema, name in tables)
            self.conn.execute(sql.SQL(command).format(names))

    def close(self) -> None:
        """End the connection."""
        self.conn.close()


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Enterable by the account the embedded server runs as when we are root."""
    directory = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def server(directory: Path, given: str | None) -> Iterator[str]:
    """The URL of the given server, or of one that is started for this run and stopped after it."""
    if given:
        yield given
        return
    root = directory / "postgres"
    held = embedded.acquire(root, settings=SETTINGS)
    try:
        yield held.url
    finally:
        held.close()
        if not embedded.wait_until_stopped(root):
            raise BenchFailed(f"the server in {root} does not stop")


@contextmanager
def fresh_database(server_url: str) -> Iterator[Database]:
    """A migrated database with a name of its own; what else is on the server is not touched."""
    name = f"stoker_bench_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            database = Database(make_conninfo(server_url, dbname=name))
            try:
                migrate(database.conn)
                database.conn.execute(_FLOOR)
                database.conn.execute(_DAYS)
                yield database
            finally:
                database.close()
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
