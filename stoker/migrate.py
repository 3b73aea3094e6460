"""Numbered migrations, applied under a lock, and the check that code and schema fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row

from stoker.errors import DatabaseUnsupported, SchemaTooNew, SchemaTooOld
from stoker.sql import schema_directory

# Any two migrators of one database meet here.
_LOCK: Final = 0x5374_6F6B_6572  # "Stoker"
OLDEST_SERVER: Final = 140_000
_NAME: Final = re.compile(r"(\d{4})_\w+\.sql")
_HAS_META: Final = (
    "select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
    " where n.nspname = 'stoker' and c.relname = 'meta'"
)
_MIN_CODE: Final = re.compile(r"^-- min_code: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Migration:
    """One file. `min_code` is the oldest code that still runs on a schema with it."""

    version: int
    min_code: int
    name: str
    text: LiteralString


@dataclass(frozen=True)
class SchemaVersion:
    """What the database says of itself; version 0 is an empty database."""

    version: int
    min_code: int


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration this code knows, in order."""
    found = []
    for path in sorted((schema_directory() / "migrations").iterdir()):
        if match := _NAME.fullmatch(path.name):
            text = path.read_text(encoding="utf-8")
            declared = _MIN_CODE.search(text)
            # Written by us and shipped with the code, so as good as literal.
            found.append(
                Migration(
                    version=int(match[1]),
                    min_code=int(declared[1]) if declared else 1,
                    name=path.stem,
                    text=text,
                )
            )
    return tuple(found)


def code_version() -> int:
    """The schema version this code was written for."""
    return migrations()[-1].version


def schema_version(conn: Connection) -> SchemaVersion:
    """Read the version of a database."""
    cursor = conn.cursor(row_factory=tuple_row)
    # Not to_regclass: it answers from a cache that another migrator's commit need not have reached yet.
    if cursor.execute(_HAS_META).fetchone() is None:
        return SchemaVersion(0, 0)
    row = cursor.execute("select version, min_code from stoker.meta").fetchone()
    return SchemaVersion(*row) if row else SchemaVersion(0, 0)


def check(conn: Connection) -> None:
    """Raise DatabaseUnsupported, SchemaTooNew or SchemaTooOld unless this code can run on this database."""
    _refuse_unfit(conn)
    found = schema_version(conn)
    _refuse_newer(found)
    if found.version < code_version():
        raise SchemaTooOld(version=found.version, needed=code_version())


def migrate(conn: Connection) -> list[str]:
    """Apply what is missing, each migration in a transaction of its own, and return the names applied.

    Two migrators at once are safe: the second waits, then finds nothing to do. A migration that fails leaves the
    database at the one before it. Raises SchemaTooNew when the database is ahead of what this code can work with.
    """
    _refuse_unfit(conn)
    applied = []
    while name := _apply_next(conn):
        applied.append(name)
    return applied


def _apply_next(conn: Connection) -> str | None:
    # Most starts find nothing to do and must not wait for a lock, nor need the right to create schemas.
    found = schema_version(conn)
    _refuse_newer(found)
    if found.version >= code_version():
        return None
    with conn.transaction():
        conn.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
        found = schema_version(conn)
        _refuse_newer(found)
        pending = [migration for migration in migrations() if migration.version > found.version]
        if not pending:
            return None
        conn.execute("create schema if not exists stoker")
        conn.execute("create table if not exists stoker.meta (version integer not null, min_code integer not null)")
        conn.execute(pending[0].text)
        conn.execute("delete from stoker.meta")
        conn.execute(
            "insert into stoker.meta (version, min_code) values (%s, %s)",
            (pending[0].version, max(found.min_code, pending[0].min_code)),
        )
    return pending[0].name


def _refuse_unfit(conn: Connection) -> None:
    if conn.info.server_version < OLDEST_SERVER:
        version = conn.info.server_version // 10_000
        raise DatabaseUnsupported(problem=f"it is PostgreSQL {version}", needed="PostgreSQL 14 or newer")
    if (encoding := conn.info.parameter_status("server_encoding")) != "UTF8":
        raise DatabaseUnsupported(problem=f"its encoding is {encoding}", needed="UTF8")


def _refuse_newer(found: SchemaVersion) -> None:
    if found.min_code > code_version():
        raise SchemaTooNew(version=found.version, min_code=found.min_code, code_version=code_version())
