"""Finds the psycopg connection inside what callers have at hand: psycopg's own, SQLAlchemy's, Django's."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, Connection

from stoker.errors import ConnectionUnusable


def sync_connection(given: Any) -> Connection[Any]:
    """Return the psycopg connection of a psycopg, SQLAlchemy (Connection, Session) or Django connection."""
    found = given
    for _ in range(4):
        if isinstance(found, Connection):
            return found
        if hasattr(found, "ensure_connection"):
            found.ensure_connection()
            found = found.connection
        elif hasattr(found, "driver_connection"):
            found = found.driver_connection
        elif callable(inner := getattr(found, "connection", None)):
            found = inner()
        else:
            _begin(found)
            found = inner
    raise ConnectionUnusable(kind=_kind(given), wanted="psycopg.Connection")


async def async_connection(given: Any) -> AsyncConnection[Any]:
    """Return the async psycopg connection of a psycopg or SQLAlchemy (AsyncConnection, AsyncSession) connection."""
    found = given
    for _ in range(4):
        if isinstance(found, AsyncConnection):
            return found
        if hasattr(found, "driver_connection"):
            found = found.driver_connection
        elif hasattr(found, "get_raw_connection"):
            if not found.in_transaction():
                await found.begin()
            found = await found.get_raw_connection()
        elif callable(inner := getattr(found, "connection", None)):
            found = await inner()
        else:
            break
    raise ConnectionUnusable(kind=_kind(given), wanted="psycopg.AsyncConnection")


def _begin(found: Any) -> None:
    # SQLAlchemy commits only what it knows of, and it does not see what is sent over its driver's connection.
    if hasattr(found, "in_transaction") and hasattr(found, "begin") and not found.in_transaction():
        found.begin()


def _kind(given: Any) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}"
