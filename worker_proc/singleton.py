"""Work that one keeper of the fleet does at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stoker.drivers.calls import Call
from stoker.drivers.postgres import PostgresDriver
from stoker.sql import statement

# "Stoker" and a number: the advisory locks of one database share one space.
RETENTION: Final = 0x5374_6F6B_6572_01
SAMPLING: Final = 0x5374_6F6B_6572_02


@contextmanager
def alone(db: PostgresDriver, key: int) -> Iterator[bool]:
    """Whether nobody else is at it now; if so, nobody else will be within the block. Never waits."""
    mine = db.run(_take(key))
    try:
        yield mine
    finally:
        # A broken connection has given it back already.
        if mine and not db.conn.closed:
            db.run(_release(key))


def _take(key: int) -> Call[bool]:
    return Call(statement("take_singleton"), {"key": key}, lambda rows: rows[0][0])


def _release(key: int) -> Call[None]:
    return Call(statement("release_singleton"), {"key": key}, lambda _: None)
