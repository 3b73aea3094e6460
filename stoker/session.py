"""What this process enqueues with: which driver, which settings, whose connection."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec.structs import replace

from stoker.drivers.base import Driver
from stoker.errors import DatabaseNotGiven, Problem, SettingsInvalid
from stoker.settings import Settings, load
from stoker.shield import shielded

if TYPE_CHECKING:
    from stoker.own_connection import OwnConnections

T = TypeVar("T")
Operation = Callable[[Any], T]


class Session:
    """Runs operations on a driver. Settings are loaded and connections opened when they are first needed."""

    def __init__(
        self, *, database_url: str | None = None, driver: Driver | None = None, settings: Settings | None = None
    ) -> None:
        self._given_url = None if database_url is None else _checked_url(database_url)
        self._settings = settings
        self.driver = driver
        self._own: OwnConnections | None = None

    @property
    def settings(self) -> Settings:
        """Those given, or those of stoker.toml and the environment. Raises SettingsInvalid."""
        if self._settings is None:
            self._settings = load({"database_url": self._given_url})
        elif self._given_url is not None and self._settings.database_url != self._given_url:
            self._settings = replace(self._settings, database_url=self._given_url)
        return self._settings

    @property
    def own(self) -> OwnConnections:
        """The connections this process opens itself."""
        if self._own is None:
            from stoker.own_connection import OwnConnections

            self._own = OwnConnections(self._url)
        return self._own

    def run(self, operation: Operation[T], *, conn: Any = None, repeatable: bool = False) -> T:
        """Run one operation: on the caller's connection, inside its transaction, or on our own in autocommit mode.

        A `repeatable` one is tried once more when our connection breaks meanwhile. Raises DriverUnavailable for our own
        connection, psycopg's errors for the caller's.
        """
        if self.driver is not None:
            return operation(self.driver)
        from stoker import postgres_calls

        with shielded:
            if conn is not None:
                return postgres_calls.on_borrowed(operation, conn, self.settings)
            return postgres_calls.on_own(operation, self.own, self.settings, repeatable=repeatable)

    async def run_async(self, operation: Operation[T], *, conn: Any = None, repeatable: bool = False) -> T:
        """The async twin of `run`: the operation is written for a sync driver, an async one answers with awaitables."""
        if self.driver is not None:
            answer = operation(self.driver)
            return await answer if inspect.isawaitable(answer) else answer
        from stoker import postgres_calls

        asking = cast(Callable[[Any], Awaitable[T]], operation)
        if conn is not None:
            return await postgres_calls.on_borrowed_async(asking, conn, self.settings)
        return await postgres_calls.on_own_async(asking, self.own, self.settings, repeatable=repeatable)

    def _url(self) -> str:
        if self.settings.database_url is not None:
            return self.settings.database_url
        try:
            from stoker.embedded import running_url
        except ImportError:  # No embedded server on this platform.
            raise DatabaseNotGiven from None
        url = running_url()
        if url is None:
            raise DatabaseNotGiven
        return url


_sessions = [Session()]


def configure(
    *, database_url: str | None = None, driver: Driver | None = None, settings: Settings | None = None
) -> None:
    """Say where jobs go; without it: the environment, stoker.toml, a running embedded server, in this order.

    A `driver` goes before everything else. Raises SettingsInvalid or DriverNotImplemented for a wrong URL.
    """
    use(Session(database_url=database_url, driver=driver, settings=settings))


def use(session: Session) -> Session:
    """Replace what this process enqueues with; returns what it was."""
    _sessions.append(session)
    return _sessions.pop(0)


def current_session() -> Session:
    """What this process enqueues with."""
    return _sessions[-1]


def _checked_url(url: str) -> str:
    from stoker.settings.readers import database_url

    try:
        return database_url(url)
    except ValueError as error:
        raise SettingsInvalid(problems=[Problem("configure()", "database_url", str(error))]) from error
