"""Sends one call over a connection and reads its answer, whatever cursors and rows the connection's owner prefers."""

from __future__ import annotations

from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.rows import tuple_row

from stoker.drivers.calls import Call

T = TypeVar("T")


def send(conn: Connection[Any], call: Call[T]) -> T:
    """One round trip; inside the caller's transaction if one is open."""
    sent = cursor(conn).execute(call.statement, call.params)
    return call.read(sent.fetchall() if sent.description else ())


async def send_async(conn: AsyncConnection[Any], call: Call[T]) -> T:
    """The async twin of `send`."""
    sent = await async_cursor(conn).execute(call.statement, call.params)
    return call.read(await sent.fetchall() if sent.description else ())


def cursor(conn: Connection[Any]) -> Cursor[tuple[Any, ...]]:
    """One that returns tuples."""
    return Cursor(conn, row_factory=tuple_row)


def async_cursor(conn: AsyncConnection[Any]) -> AsyncCursor[tuple[Any, ...]]:
    """The async twin of `cursor`."""
    return AsyncCursor(conn, row_factory=tuple_row)
