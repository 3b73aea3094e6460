"""Where a command finds its database: the settings, else the embedded server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.console.refusals import DatabaseRefused
from stoker.errors import DatabaseNotGiven
from stoker.session import Session, use
from stoker.settings import Settings

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")


@contextmanager
def reading(settings: Settings) -> Iterator[Session]:
    """Let the client use the database of these settings, or the embedded server if it runs here."""
    with refusals_in_words():
        session = Session(settings=settings)
        before = use(session)
        try:
            yield session
        finally:
            session.own.close()
            use(before)


def ask(session: Session, question: Callable[[Any], T]) -> T:
    """Ask the driver; once more if the connection breaks meanwhile."""
    return session.run(question, repeatable=True)


@contextmanager
def holding_url(settings: Settings) -> Iterator[str]:
    """The URL of the settings, or that of the embedded server, which is started if need be and held meanwhile."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    try:
        from stoker import embedded
    except ImportError:  # There is no embedded server on this platform.
        raise DatabaseNotGiven from None
    server = embedded.acquire()
    try:
        yield server.url
    finally:
        server.close()


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection of our own for one command."""
    from stoker.database import connect

    with refusals_in_words():
        conn = connect(url, name="stoker: console")
        try:
            yield conn
        finally:
            conn.close()


@contextmanager
def refusals_in_words() -> Iterator[None]:
    """Tell what PostgreSQL refuses without a traceback."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise DatabaseRefused(error=str(error)) from error
