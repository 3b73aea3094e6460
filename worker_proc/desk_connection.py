"""The connection of a worker's desk: used by one call at a time under a limit, closed when anything is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import psycopg
from psycopg import Connection

from stoker.database import STEADY_PLANS, Severer, connect
from stoker.drivers.calls import Keeping
from stoker.drivers.postgres import REFUSED, PostgresDriver
from stoker.errors import DriverUnavailable
from stoker.migrate import check
from worker_proc.board import SlotWord
from worker_proc.control import Control

# A call that takes longer is cut and the connection opened anew.
CALL_LIMIT_S: Final = 15.0
STOPPING_LIMIT_S: Final = 3.0

T = TypeVar("T")


class DeskClosed(Exception):
    """The database does not answer; what was pending is kept. The message says why."""


class DeskConnection:
    """At most one open connection. Raises DeskClosed for whatever is wrong with it, and is closed then."""

    def __init__(self, control: Control, *, url: str, name: str, keeping: Keeping) -> None:
        self._control = control
        self._url = url
        self._name = name
        self._keeping = keeping
        self._driver: PostgresDriver | None = None
        self._severer: Severer | None = None

    @property
    def is_open(self) -> bool:
        """True while nothing is known to be wrong with it."""
        return self._driver is not None

    @property
    def keeps_transactions(self) -> bool:
        """True when the session is ours alone, so that a transaction may stay open between two calls."""
        return self._driver is not None and self._driver.conn.prepare_threshold is not None

    def open(self) -> None:
        """Connect. Raises DeskClosed, or SchemaTooOld and SchemaTooNew."""
        try:
            conn = connect(self._url, name=self._name)
        except DriverUnavailable as error:
            raise DeskClosed(str(error.__cause__ or error)) from error
        severer = Severer(conn)
        try:
            with self._control.limit(severer, CALL_LIMIT_S):
                self._prepare(conn)
        except psycopg.Error as error:
            severer.close()
            conn.close()
            raise DeskClosed(str(error)) from error
        except BaseException:
            severer.close()
            conn.close()
            raise
        self._control.slot[SlotWord.BACKEND_PID] = conn.info.backend_pid
        self._driver, self._severer = PostgresDriver(conn, keeping=self._keeping), severer

    def close(self) -> None:
        """Drop the connection; again is fine."""
        driver, severer = self._driver, self._severer
        self._driver = self._severer = None
        self._control.slot[SlotWord.BACKEND_PID] = 0
        if driver is not None and severer is not None:
            severer.close()
            driver.conn.close()

    def call(self, use: Callable[[PostgresDriver], T]) -> T:
        """Let `use` have the driver for one exchange. What PostgreSQL refuses for good is raised as it is."""
        driver, severer = self._driver, self._severer
        if driver is None or severer is None:
            raise DeskClosed("not connected")
        try:
            with self._control.limit(severer, STOPPING_LIMIT_S if self._control.stopping else CALL_LIMIT_S):
                return use(driver)
        except REFUSED:
            raise
        except psycopg.Error as error:
            # Also a server that turned read-only or lost a table: whatever it is, a new connection is the way out.
            self.close()
            raise DeskClosed(str(error)) from error

    @staticmethod
    def _prepare(conn: Connection) -> None:
        check(conn)
        if conn.prepare_threshold is not None:
            conn.prepare_threshold = 0
            conn.execute(STEADY_PLANS, prepare=False)
