"""How every connection of ours is opened, and how a call that hangs is ended from outside."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, Connection

from stoker.errors import DriverUnavailable

CONNECT_TIMEOUT: Final = 5
# The third execution of a statement is a prepared one.
PREPARE_THRESHOLD: Final = 2

# A peer that vanished without closing is noticed after about 10 s, idle or not.
_KEEPALIVE: Final[dict[str, Any]] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

# A proxy tells clients another process id than the one of the session that it lends them.
_WHO: Final = "select pg_backend_pid()"
# What a role or database default must not change under us. psycopg reads times in ISO form only.
_SESSION: Final = (
    "set session characteristics as transaction isolation level read committed, read write;"
    " set idle_in_transaction_session_timeout = 0; set statement_timeout = 0; set lock_timeout = 0; set datestyle = iso"
)

# Plans outlive what they were made for: one made while the queue was empty may serve a million rows, and statistics are
# those of another moment. Each statement of a worker or a keeper finds its rows by one index: it needs no scan of whole
# tables and no loop over a join. A sort must stay allowed, or an index that has the order is walked whole for it.
# What is off and used all the same has a price that would make PostgreSQL compile the plan: no jit.
STEADY_PLANS: Final = (
    "set plan_cache_mode = force_generic_plan; set jit = off;"
    " set enable_seqscan = off; set enable_bitmapscan = off; set enable_nestloop = off"
)


def connect(url: str, *, name: str, timeout: float = CONNECT_TIMEOUT, dedicated: bool = False) -> Connection:
    """Open a connection in autocommit mode, pinned to READ COMMITTED. Raises DriverUnavailable.

    Through a proxy it is what its role's defaults make it, unless it is `dedicated`: what we set there would stay with
    a session that others use next, and what we prepare would be theirs.
    """
    try:
        conn = psycopg.connect(url, **_options(name, timeout))
        row = conn.execute(_WHO).fetchone()
        if dedicated or row == (conn.info.backend_pid,):
            conn.execute(_SESSION)
            conn.prepare_threshold = PREPARE_THRESHOLD
    except psycopg.Error as error:
        raise DriverUnavailable(url=url, error=str(error)) from error
    return conn


async def connect_async(url: str, *, name: str, timeout: float = CONNECT_TIMEOUT) -> AsyncConnection:
    """The async twin of connect()."""
    try:
        conn = await AsyncConnection.connect(url, **_options(name, timeout))
        row = await (await conn.execute(_WHO)).fetchone()
        if row == (conn.info.backend_pid,):
            await conn.execute(_SESSION)
            conn.prepare_threshold = PREPARE_THRESHOLD
    except psycopg.Error as error:
        raise DriverUnavailable(url=url, error=str(error)) from error
    return conn


def _options(name: str, timeout: float) -> dict[str, Any]:
    # libpq counts whole seconds, 2 at least.
    return {
        "autocommit": True,
        "application_name": name,
        "connect_timeout": max(2, round(timeout)),
        "client_encoding": "utf8",
        "prepare_threshold": None,
        **_KEEPALIVE,
    }


class Severer:
    """Ends whatever a connection is doing, from another thread: shuts down a duplicate of its socket.

    Cancelling does not free a caller whose server is frozen; a shut socket does. The connection is broken afterwards.
    """

    def __init__(self, conn: Connection) -> None:
        self._socket = socket.socket(fileno=os.dup(conn.fileno()))
        os.set_inheritable(self._socket.fileno(), False)

    def sever(self) -> None:
        """Shut the socket down in both directions."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the duplicate back; the connection is not touched."""
        self._socket.close()
