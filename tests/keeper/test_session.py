"""The keeper without its database, and when it comes back."""

import socket
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from stoker.errors import DatabaseNotGiven, SchemaTooNew
from stoker.settings import Settings
from tests.keeper.rig import Boot, Host, Queue
from tests.support import until
from worker_proc.board import SlotState, SlotWord
from worker_proc.messages import CancelRequested, Ready, WaitingForDatabase


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port where nobody listens and that nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_without_a_database_it_waits_says_so_once_and_lives(host: Host, closed_port: int) -> None:
    url = f"postgresql://stoker:secret@127.0.0.1:{closed_port}/queue"
    boot = host.boot(settings=Settings(database_url=url))
    boot.until_said(WaitingForDatabase)
    boot.turn_for(0.8)
    (waiting,) = boot.heard(WaitingForDatabase)
    assert "refused" in waiting.error and "secret" not in waiting.error
    assert host.keeper_slot[SlotWord.STATE] == SlotState.WAITING_FOR_DATABASE
    assert not boot.heard(Ready)


def test_it_tries_again_ever_more_slowly_up_to_two_seconds(host: Host, closed_port: int) -> None:
    boot = host.boot(settings=Settings(database_url=f"postgresql://127.0.0.1:{closed_port}/queue"))
    least, most = [], []
    for _ in range(8):
        boot.keeper.session._retry_at = 0
        tried_at = time.monotonic()
        boot.keeper.turn()
        # The pause began somewhere between the two moments.
        least.append(boot.keeper.session._retry_at - time.monotonic())
        most.append(boot.keeper.session._retry_at - tried_at)
    assert most[0] > 0.05 and least[0] < 1.4 < most[-1] and boot.keeper.session._pause == 2.0


def test_no_url_is_a_configuration_error(host: Host) -> None:
    with pytest.raises(DatabaseNotGiven):
        host.boot(settings=Settings())


def test_an_empty_database_is_migrated(host: Host, server: object, database_url: str) -> None:
    name = f"empty_{time.monotonic_ns()}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f'create database "{name}"')
        url = psycopg.conninfo.make_conninfo(database_url, dbname=name)
        boot = host.boot(settings=Settings(database_url=url))
        boot.until_said(Ready)
        with psycopg.connect(url) as conn:
            assert conn.execute("select count(*) from stoker.hosts").fetchone() == (1,)
        boot.close()
        admin.execute(f'drop database "{name}" with (force)')


def test_a_schema_that_is_too_new_ends_the_keeper(host: Host, queue: Queue) -> None:
    queue.conn.execute("update stoker.meta set min_code = 9999")
    try:
        with pytest.raises(SchemaTooNew):
            host.boot().keeper.turn()
    finally:
        queue.conn.execute("update stoker.meta set min_code = 1")


@pytest.fixture
def boot(host: Host) -> Boot:
    boot = host.boot()
    boot.until_said(Ready)
    return boot


def test_a_terminated_session_listens_and_locks_again(boot: Boot, host: Host, queue: Queue) -> None:
    for _ in range(3):
        queue.kill_backend(boot.backend_pid())
        boot.turn_until(lambda: not boot.keeper.session.is_up)
        # While nobody listens:
        (due,) = queue.add(delay=0.01)
        (job_id,) = queue.add(queue="held")
        queue.claim(host.id, 7, queue="held")
        queue.driver.cancel(job_id, "")
        before = len(boot.heard(CancelRequested))
        boot.turn_until(lambda due=due: queue.state(due) == "ready")
        boot.turn_until(lambda before=before: len(boot.heard(CancelRequested)) > before)
        assert host.woken(0) and host.woken(1), "everybody looks for what was missed"
        boot.turn_until(lambda: queue.advisory_locks(boot.backend_pid()) == 1)
        queue.add()
        host.worker_ready(0)
        boot.turn_until(lambda: host.woken(0))
        queue.conn.execute("truncate stoker.jobs, stoker.cancels")
    assert boot.heard(WaitingForDatabase) == []
    assert len(boot.heard(Ready)) == 1


def test_a_longer_outage_is_said_and_so_is_its_end(
    boot: Boot, queue: Queue, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_proc.announcing.UNNOTICED_S", 0.2)
    good, boot.keeper.session._url = boot.keeper.session._url, f"postgresql://127.0.0.1:{closed_port}/queue"
    queue.kill_backend(boot.backend_pid())
    boot.until_said(WaitingForDatabase)
    boot.keeper.session._url = good
    boot.turn_until(lambda: len(boot.heard(Ready)) == 2)
    assert len(boot.heard(WaitingForDatabase)) == 1


def test_the_session_never_sits_in_a_transaction(boot: Boot, queue: Queue) -> None:
    boot.turn_for(0.3)
    assert queue.one("select state from pg_stat_activity where pid = %s", boot.backend_pid()) == "idle"


def test_two_connections_and_no_more(make_host: Callable[..., Host], queue: Queue) -> None:
    until(lambda: connections(queue) == 1)
    boot = make_host("b").boot()
    boot.until_said(Ready)
    boot.turn_until(lambda: connections(queue) == 3)
    boot.turn_for(0.5)
    assert connections(queue) == 3


def connections(queue: Queue) -> int:
    count: int = queue.one(
        "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
    )
    return count


def test_a_server_that_throws_us_out_at_once_is_not_stormed(
    boot: Boot, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = 0
    open_session = boot.keeper.session.open

    def count() -> None:
        nonlocal opened
        opened += 1
        open_session()
        queue.kill_backend(boot.backend_pid())

    monkeypatch.setattr(boot.keeper.session, "open", count)
    queue.kill_backend(boot.backend_pid())
    began = time.monotonic()
    boot.turn_until(lambda: opened >= 2 and time.monotonic() > began + 1.0)
    assert opened <= 5 * (time.monotonic() - began)


def test_it_is_ready_as_soon_as_it_has_the_lease_whatever_else_is_to_be_done(host: Host) -> None:
    boot = host.boot()
    order = [duty.name for duty in boot.keeper._rota._duties]
    assert order.index("announcing") == order.index("host lease") + 1
    boot.until_said(Ready)
    assert boot.keeper.lease.held
