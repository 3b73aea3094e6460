"""Runs an operation of the client on PostgreSQL, and says what went wrong in our words where the connection is ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from stoker.borrowed import async_connection, sync_connection
from stoker.drivers.calls import Keeping
from stoker.drivers.postgres import AsyncPostgresDriver, PostgresDriver
from stoker.errors import DriverUnavailable, SchemaTooOld
from stoker.migrate import code_version
from stoker.own_connection import OwnConnections
from stoker.settings import Settings

T = TypeVar("T")
SyncOperation = Callable[[PostgresDriver], T]
AsyncOperation = Callable[[AsyncPostgresDriver], Awaitable[T]]

_SCHEMA_MISSING = (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName, errors.UndefinedColumn)
# A server that turned into a standby refuses to write.
_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction)


def on_borrowed(operation: SyncOperation[T], conn: Any, settings: Settings) -> T:
    """Over the caller's connection: nothing is committed, psycopg's errors come through. Raises SchemaTooOld."""
    with _naming_the_schema():
        return operation(PostgresDriver(sync_connection(conn), keeping=Keeping.of(settings)))


async def on_borrowed_async(operation: AsyncOperation[T], conn: Any, settings: Settings) -> T:
    """The async twin of `on_borrowed`."""
    found = await async_connection(conn)
    with _naming_the_schema():
        return await operation(AsyncPostgresDriver(found, keeping=Keeping.of(settings)))


def on_own(operation: SyncOperation[T], own: OwnConnections, settings: Settings, *, repeatable: bool) -> T:
    """Over this thread's own connection. Raises DriverUnavailable, SchemaTooOld."""
    keeping = Keeping.of(settings)
    with _naming_the_database(own), _naming_the_schema():
        if repeatable:
            with suppress(*_AWAY):
                return operation(PostgresDriver(own.get(), keeping=keeping))
        return operation(PostgresDriver(own.get(), keeping=keeping))


async def on_own_async(operation: AsyncOperation[T], own: OwnConnections, settings: Settings, *, repeatable: bool) -> T:
    """The async twin of `on_own`; the tasks of one loop take turns."""
    keeping = Keeping.of(settings)
    with _naming_the_database(own), _naming_the_schema():
        if repeatable:
            with suppress(*_AWAY):
                async with own.take_async() as conn:
                    return await operation(AsyncPostgresDriver(conn, keeping=keeping))
        async with own.take_async() as conn:
            return await operation(AsyncPostgresDriver(conn, keeping=keeping))


@contextmanager
def _naming_the_database(own: OwnConnections) -> Iterator[None]:
    try:
        yield
    except _AWAY as error:
        raise DriverUnavailable(url=own.url, error=str(error)) from error


@contextmanager
def _naming_the_schema() -> Iterator[None]:
    try:
        yield
    except _SCHEMA_MISSING as error:
        raise SchemaTooOld(needed=code_version()) from error
