"""One PostgreSQL for the whole run, one database per xdist worker, emptied before every test that uses it."""

import compileall
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest

from stoker import embedded
from stoker.database import connect
from stoker.migrate import migrate
from tests import order
from tests.figures import Figures, told
from tests.side_table import EFFECTS, Database
from tests.support import FULL_SCALE, scaled

# Test machines are busy: an example that took long says nothing.
hypothesis.settings.register_profile(
    "stoker",
    deadline=None,
    max_examples=scaled(40, 2_000),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("stoker")

_HOME = Path(__file__).parents[1]
_ROOT = "TEST_PG_ROOT"
# Of a process that the test before killed: what it had sent last may be executed even now.
_LEFT_BEHIND = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
  and (application_name = '' or application_name like 'stoker: %')
"""
_TABLES = ("jobs", "finished", "attempts", "cancels", "suspects", "hosts", "queues")


def pytest_configure(config: pytest.Config) -> None:
    # A shell's `&` and nohup ignore them, and so would everything the tests start.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    # What one process of this run has compiled, the others need not: with all assertions that is most of a start.
    sys.dont_write_bytecode = False
    if _ROOT not in os.environ:
        # Not below pytest's own folder: as root, the server's user could not reach it there.
        os.environ[_ROOT] = tempfile.mkdtemp(prefix="stoker-tests-")
        Path(os.environ[_ROOT]).chmod(0o755)
        config.add_cleanup(_remove_server)
        _compile()


# Before xdist looks which tests belong together.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order.arrange(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A sample measures little: its figures are only of use when asked for."""
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    if (figures := told(reports)) and (FULL_SCALE or terminalreporter.verbosity > 0):
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.write_line(line)


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Figures:
    """Where a test tells what it measured."""
    return Figures(record_property)


def _compile() -> None:
    """Where no bytecode may be written, each of the many processes that tests start would compile everything anew."""
    for package in ("stoker", "supervisor", "worker_proc", "examples", "bench"):
        compileall.compile_dir(_HOME / package, quiet=2)
    compileall.compile_dir(_HOME / "tests", maxlevels=0, quiet=2)


def _remove_server() -> None:
    root = Path(os.environ.pop(_ROOT))
    embedded.wait_until_stopped(root)
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def server() -> Iterator[embedded.Server]:
    """The server of this run, with TCP on a port of its own."""
    settings = {"fsync": "off", "synchronous_commit": "on", "max_connections": "300", "full_page_writes": "off"}
    # A prepared transaction keeps a snapshot too.
    settings["max_prepared_transactions"] = "5"
    held = embedded.acquire(Path(os.environ[_ROOT]), settings=settings)
    yield held
    held.close()


@pytest.fixture(autouse=True)
def signals_are_heard() -> Iterator[None]:
    """What one test left blocked, the programs that later ones start would never hear."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked


@pytest.fixture(scope="session")
def worker_database(server: embedded.Server) -> Iterator[str]:
    """The URL of a migrated database of this xdist worker."""
    name = f"test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f'create database "{name}"')
        url = psycopg.conninfo.make_conninfo(server.url, dbname=name)
        conn = connect(url, name="tests")
        migrate(conn)
        conn.execute(EFFECTS)
        conn.close()
        yield url
        admin.execute(f'drop database "{name}" with (force)')


@pytest.fixture
def database_url(worker_database: str) -> str:
    """An empty, migrated database. `effects` is a side table for what jobs really did."""
    conn = connect(worker_database, name="tests")
    conn.execute(_LEFT_BEHIND)
    conn.execute("truncate effects")
    conn.execute("truncate " + ", ".join(f"stoker.{table}" for table in _TABLES))
    conn.close()
    return worker_database


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """The empty database and the side table, with a connection of the test's own."""
    database = Database(database_url)
    yield database
    database.close()
