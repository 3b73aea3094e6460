"""One connection of the keeper: opened with a back-off, cut when a call hangs, never used after it broke."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from psycopg import Connection

from stoker.database import Severer, connect
from stoker.drivers.calls import Keeping
from stoker.drivers.postgres import PostgresDriver
from stoker.errors import DriverUnavailable
from stoker.urls import describe_url
from worker_proc.control import Control

_LEAST_PAUSE_S: Final = 0.1
_MOST_PAUSE_S: Final = 2.0
# A connection that breaks earlier counts as one that could not be opened.
_LIVED_S: Final = 2.0
# While the control thread looks once a beat, a call may last up to one second more.
CALL_LIMIT_S: Final = 3.0
# Migrations run in here.
PREPARE_LIMIT_S: Final = 600.0


class LinkDown(Exception):
    """There is no connection now; the message says why."""


class Link:
    """Holds at most one open connection. One thread uses it.

    `prepare` is run on every new connection before anybody else uses it; what it raises from psycopg counts as
    "not available".
    """

    def __init__(
        self, control: Control, *, url: str, name: str, keeping: Keeping, prepare: Callable[[Connection], None]
    ) -> None:
        self._control = control
        self._url = url
        self._name = name
        self._keeping = keeping
        self._prepare = prepare
        self._driver: PostgresDriver | None = None
        self._severer: Severer | None = None
        self._pause = 0.0
        self._retry_at = 0.0
        self._opened_at = 0.0

    @property
    def conn(self) -> Connection:
        """The open connection. Raises LinkDown."""
        return self._open_driver().conn

    @property
    def is_up(self) -> bool:
        """True while nothing is known to be wrong with the connection."""
        return self._driver is not None and not self._driver.conn.closed

    @property
    def place(self) -> str:
        """Where the database is, fit to be shown."""
        return describe_url(self._url)

    @property
    def retry_in(self) -> float:
        """Seconds until the next attempt to open is worth it."""
        return max(0.0, self._retry_at - time.monotonic())

    def open(self) -> None:
        """Connect and prepare. Raises LinkDown; the next attempt is worth it after a pause of 0.1 to 2 s."""
        self.drop()
        try:
            self._driver, self._severer = self._connected()
        except (DriverUnavailable, psycopg.Error) as error:
            self._put_off()
            raise LinkDown(str(error.__cause__ or error)) from error
        self._opened_at = time.monotonic()

    @contextmanager
    def limited(self, seconds: float = CALL_LIMIT_S) -> Iterator[PostgresDriver]:
        """The driver, for calls that together may take that long; then the connection is cut. Raises LinkDown."""
        driver = self._open_driver()
        assert self._severer is not None
        with self._control.limit(self._severer, seconds):
            yield driver

    def sever(self) -> None:
        """Make whatever waits on the connection fail at once; any thread."""
        if severer := self._severer:
            severer.sever()

    def drop(self) -> None:
        """Close what is open; again is fine."""
        driver, severer = self._driver, self._severer
        self._driver = self._severer = None
        if severer is not None:
            severer.close()
        if driver is not None:
            driver.conn.close()
            if time.monotonic() - self._opened_at < _LIVED_S:
                self._put_off()
            else:
                self._pause = self._retry_at = 0.0

    def _put_off(self) -> None:
        self._pause = min(_MOST_PAUSE_S, max(_LEAST_PAUSE_S, self._pause * 2))
        self._retry_at = time.monotonic() + self._pause * random.uniform(0.75, 1.0)

    def _open_driver(self) -> PostgresDriver:
        if self._driver is None or self._driver.conn.closed:
            raise LinkDown("the connection is closed")
        return self._driver

    def _connected(self) -> tuple[PostgresDriver, Severer]:
        conn = connect(self._url, name=self._name, dedicated=True)
        severer = Severer(conn)
        try:
            with self._control.limit(severer, PREPARE_LIMIT_S):
                self._prepare(conn)
        except BaseException:
            severer.close()
            with suppress(psycopg.Error):
                conn.close()
            raise
        return PostgresDriver(conn, keeping=self._keeping), severer
