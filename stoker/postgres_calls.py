"""Runs an operation of the client on PostgreSQL, and says what went wrong in our words where the connection is ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
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
    with _InOurWords():
        return operation(PostgresDriver(sync_connection(conn), keeping=Keeping.of(settings)))


async def on_borrowed_async(operation: AsyncOperation[T], conn: Any, settings: Settings) -> T:
    """The async twin of `on_borrowed`."""
    found = await async_connection(conn)
    with _InOurWords():
        return await operation(AsyncPostgresDriver(found, keeping=Keeping.of(settings)))


def on_own(operation: SyncOperation[T], own: OwnConnections, settings: Settings, *, repeatable: bool) -> T:
    """Over this thread's own connection. Raises DriverUnavailable, SchemaTooOld."""
    keeping = Keeping.of(settings)
    with _InOurWords(own):
        if repeatable:
            with suppress(*_AWAY):
                return operation(PostgresDriver(own.get(), keeping=keeping))
        return operation(PostgresDriver(own.get(), keeping=keeping))


async def on_own_async(operation: AsyncOperation[T], own: OwnConnections, settings: Settings, *, repeatable: bool) -> T:
    """The async twin of `on_own`; the tasks of one loop take turns."""
    keeping = Keeping.of(settings)
    with _InOurWords(own):
        if repeatable:
            with suppress(*_AWAY):
                async with own.take_async() as conn:
                    return await operation(AsyncPostgresDriver(conn, keeping=keeping))
        async with own.take_async() as conn:
            return await operation(AsyncPostgresDriver(conn, keeping=keeping))


class _InOurWords:
    """Says what psycopg raised in our words; the loss of a connection only where it is our own."""

    __slots__ = ("_own",)

    def __init__(self, own: OwnConnections | None = None) -> None:
        self._own = own

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, _SCHEMA_MISSING):
            raise SchemaTooOld(needed=code_version()) from error
        if self._own is not None and isinstance(error, _AWAY):
            raise DriverUnavailable(url=self._own.url, error=str(error)) from error
