"""The drivers that must keep the contract."""

from collections.abc import Callable, Iterator
from datetime import timedelta

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


@pytest.fixture
def let_pass(driver: Driver) -> Callable[[timedelta], None]:
    """Lets time pass for the jobs that wait for it, without a test that waits."""

    def memory(time: timedelta) -> None:
        assert isinstance(driver, MemoryDriver)
        before = driver.clock
        driver.clock = lambda: before() + time

    def postgres(time: timedelta) -> None:
        assert isinstance(driver, PostgresDriver)
        driver.conn.execute("update stoker.jobs set run_at = run_at - %s where state = 'delayed'", (time,))

    return memory if isinstance(driver, MemoryDriver) else postgres
