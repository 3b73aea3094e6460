"""Connections of our own for enqueueing: one per thread and one per event loop, and never one of another process."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from stoker.database import connect, connect_async

C = TypeVar("C", Connection[Any], AsyncConnection[Any])

_NAME: Final = "stoker: client"

# Connections opened before a fork: using, closing or collecting them here would disturb the process that owns them.
_foreign: list[object] = []


class _Held(Generic[C]):
    """A connection with the process it belongs to; it is closed when nobody holds this any more."""

    def __init__(self, conn: C) -> None:
        self.conn: C = conn
        self._pid = os.getpid()
        self._has_input = _input_probe(conn.pgconn.socket)

    def is_usable(self) -> bool:
        """True when it is this process's, alive as far as one can tell without asking, and between transactions."""
        if self._pid != os.getpid() or self.conn.closed:
            return False
        # An idle server says nothing but its farewell.
        return self.conn.pgconn.transaction_status == TransactionStatus.IDLE and not self._has_input()

    def __del__(self) -> None:
        if self._pid == os.getpid():
            self.conn.pgconn.finish()
        else:
            _foreign.append(self.conn)


class _Shared:
    """What the tasks of one event loop share: a connection, and whose turn it is."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.held: _Held[AsyncConnection[Any]] | None = None
        self._until_shutdown = self._drop_at_shutdown()

    async def watch(self) -> None:
        """Have the running loop end the connection when it ends itself: `asyncio.run` closes what generators hold."""
        await anext(self._until_shutdown)

    async def _drop_at_shutdown(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self.held = None


class OwnConnections:
    """Opens a connection when one is needed and keeps it; one that was found dead is replaced before it is used.

    Nothing is ever sent twice: an enqueue whose answer got lost raises, because it may have been stored.
    """

    def __init__(self, url: Callable[[], str]) -> None:
        self._find_url = url
        self.url = ""
        self._of_thread = threading.local()
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()

    def get(self) -> Connection[Any]:
        """This thread's connection. Raises DriverUnavailable."""
        held: _Held[Connection[Any]] | None = getattr(self._of_thread, "held", None)
        if held is None or not held.is_usable():
            self.close()
            held = self._of_thread.held = _Held(connect(self._refreshed_url(), name=_NAME))
        return held.conn

    @asynccontextmanager
    async def take_async(self) -> AsyncIterator[AsyncConnection[Any]]:
        """This event loop's connection; its tasks take turns. Raises DriverUnavailable."""
        shared = await self._shared()
        async with shared.turn:
            if shared.held is None or not shared.held.is_usable():
                shared.held = None
                shared.held = _Held(await connect_async(self._refreshed_url(), name=_NAME))
            yield shared.held.conn

    async def _shared(self) -> _Shared:
        loop = asyncio.get_running_loop()
        shared = self._of_loop.get(loop)
        if shared is None:
            for known in [known for known in self._of_loop if known.is_closed()]:
                del self._of_loop[known]
            shared = self._of_loop[loop] = _Shared()
            await shared.watch()
        return shared

    def _refreshed_url(self) -> str:
        self.url = self._find_url()
        return self.url

    def close(self) -> None:
        """Close this thread's connection."""
        self._of_thread.__dict__.pop("held", None)


def _input_probe(descriptor: int) -> Callable[[], bool]:
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda: bool(poll.poll(0))
