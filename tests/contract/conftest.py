"""The drivers that must keep the contract."""

from collections.abc import Iterator

import pytest

from stoker.database import connect
from stoker.drivers.base import Driver
from stoker.drivers.memory import MemoryDriver
from stoker.drivers.postgres import PostgresDriver


@pytest.fixture(params=["memory", "postgres"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """Every driver in turn, empty."""
    if request.param == "memory":
        yield MemoryDriver()
        return
    conn = connect(request.getfixturevalue("database_url"), name="tests")
    yield PostgresDriver(conn)
    conn.close()
