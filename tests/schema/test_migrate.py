"""Migrations: under a lock, each whole, and code and schema that do not fit say so."""

import os
import threading
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from stoker import embedded, migrate
from stoker.database import connect
from stoker.errors import DatabaseUnsupported, SchemaTooNew, SchemaTooOld


@pytest.fixture
def empty_url(server: embedded.Server) -> Iterator[str]:
    """A database without anything of ours."""
    name = f"empty_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f'create database "{name}"')  # type: ignore[call-overload]
        yield psycopg.conninfo.make_conninfo(server.url, dbname=name)
        admin.execute(f'drop database "{name}" with (force)')  # type: ignore[call-overload]


def test_from_nothing_to_the_newest(empty_url: str) -> None:
    with connect(empty_url, name="test") as conn:
        assert migrate.schema_version(conn).version == 0
        assert migrate.migrate(conn) == [migration.name for migration in migrate.migrations()]
        assert migrate.schema_version(conn).version == migrate.code_version()
        assert migrate.migrate(conn) == []
        migrate.check(conn)


def test_many_migrators_at_once(empty_url: str) -> None:
    applied: list[list[str]] = []
    barrier = threading.Barrier(4)

    def one() -> None:
        with connect(empty_url, name="test") as conn:
            barrier.wait()
            applied.append(migrate.migrate(conn))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for names in applied for name in names) == [m.name for m in migrate.migrations()]


def test_old_code_runs_on_a_newer_schema_that_allows_it(empty_url: str) -> None:
    with connect(empty_url, name="test") as conn:
        migrate.migrate(conn)
        conn.execute("update stoker.meta set version = version + 5")
        migrate.check(conn)
        assert migrate.migrate(conn) == []


def test_old_code_refuses_a_schema_that_needs_newer(empty_url: str) -> None:
    with connect(empty_url, name="test") as conn:
        migrate.migrate(conn)
        conn.execute("update stoker.meta set version = 900, min_code = 900")
        for refuse in (migrate.check, migrate.migrate):
            with pytest.raises(SchemaTooNew) as caught:
                refuse(conn)
            assert caught.value.exit_code == 78


def test_new_code_refuses_an_old_schema(empty_url: str) -> None:
    with connect(empty_url, name="test") as conn, pytest.raises(SchemaTooOld, match="stoker migrate"):
        migrate.check(conn)


def test_a_database_that_lacks_characters_is_refused(server: embedded.Server) -> None:
    name = f"latin_{os.getpid()}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0")  # type: ignore[call-overload]
        try:
            url = psycopg.conninfo.make_conninfo(server.url, dbname=name)
            with connect(url, name="test") as conn, pytest.raises(DatabaseUnsupported, match="LATIN1"):
                migrate.migrate(conn)
        finally:
            admin.execute(f"drop database {name}")  # type: ignore[call-overload]


def test_a_failing_migration_leaves_nothing(empty_url: str) -> None:
    with connect(empty_url, name="test") as conn:
        conn.execute("create schema stoker; create table stoker.finished (id int)")
        with pytest.raises(psycopg.errors.DuplicateTable):
            migrate.migrate(conn)
        assert migrate.schema_version(conn).version == 0
        row = conn.execute("select to_regclass('stoker.jobs')").fetchone()
        assert row == (None,)
