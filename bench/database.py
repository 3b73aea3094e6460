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
# What the floors work on: the same columns, constraints and indexes.
_FLOOR: Final[LiteralString] = f"""
create schema bench;
create table bench.jobs (like stoker.jobs including all) {_STORAGE};
create table bench.finished (like stoker.finished including defaults);
create index on bench.finished (id);
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

    def wipe(self) -> None:
        """Empty every table of the product and of the floor. No supervisor may be running."""
        tables = self.conn.execute(
            "select schemaname, tablename from pg_tables"
            " where schemaname in ('stoker', 'bench') and (schemaname, tablename) <> ('stoker', 'meta')"
        ).fetchall()
        self.conn.execute(
            sql.SQL("truncate {}").format(sql.SQL(", ").join(sql.Identifier(schema, name) for schema, name in tables))
        )

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
                yield database
            finally:
                database.close()
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
