"""Enqueueing into PostgreSQL: whose connection, whose transaction, and what happens when it breaks."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import stoker
from stoker import Job, session
from stoker.drivers.base import Holder, Settlement
from stoker.drivers.postgres import PostgresDriver
from stoker.errors import (
    ConnectionUnusable,
    DriverNotImplemented,
    DriverUnavailable,
    JobCancelled,
    JobDuplicate,
    SchemaTooOld,
    SettingsInvalid,
)
from stoker.session import Session
from stoker.settings import RetentionSettings, Settings
from tests.support import until


def _work(payload: dict[str, Any]) -> None: ...


work = Job(_work, name="work")


@pytest.fixture
def database(database_url: str) -> Iterator[str]:
    """Jobs of this process go to an empty database."""
    before = session.use(Session(database_url=database_url, settings=Settings()))
    yield database_url
    session.current_session().own.close()
    session.use(before)


@pytest.fixture
def admin(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as conn:
        yield conn


def count(admin: psycopg.Connection[Any]) -> int:
    row = admin.execute("select count(*) from stoker.jobs").fetchone()
    assert row is not None
    return int(row[0])


def backends(admin: psycopg.Connection[Any]) -> list[int]:
    query = (
        "select pid from pg_stat_activity where datname = current_database() and application_name = 'stoker: client'"
    )
    return [row[0] for row in admin.execute(query)]


def terminate(admin: psycopg.Connection[Any]) -> None:
    admin.execute("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", [backends(admin)])


def end(database: str, job_id: int, **facts: Any) -> None:
    """Be a worker for one job."""
    with psycopg.connect(database, autocommit=True) as conn:
        driver = PostgresDriver(conn)
        (claimed,) = driver.claim("default", 1, Holder(1, 1))
        assert claimed.id == job_id
        driver.settle([Settlement(job_id=claimed.id, run_no=claimed.run_no, **facts)])


# our own connection


def test_jobs_are_there_at_once(database: str, admin: psycopg.Connection[Any]) -> None:
    job_id = work.enqueue({"n": 1}, priority=3, tenant="acme", idempotency_key="k")
    view = stoker.get(job_id)
    assert view is not None
    assert (view.name, view.state, view.priority, view.tenant, view.payload) == ("work", "ready", 3, "acme", {"n": 1})
    assert work.enqueue({"n": 2}, idempotency_key="k", tenant="acme") == job_id
    with pytest.raises(JobDuplicate):
        work.enqueue({"n": 2}, idempotency_key="k", tenant="acme", on_conflict="error")
    assert count(admin) == 1


def test_many_jobs_at_once(database: str, admin: psycopg.Connection[Any]) -> None:
    ids = work.enqueue_many({"n": n} for n in range(500))
    assert ids == sorted(set(ids)) and len(ids) == 500
    assert count(admin) == 500
    last = stoker.get(ids[-1])
    assert last is not None and last.payload == {"n": 499}


def test_results_and_failures_come_back(database: str) -> None:
    done = work.enqueue({})
    assert stoker.result(done) is None
    end(database, done, outcome="completed", result='{"pages":3}')
    assert stoker.result(done) == stoker.wait(done) == {"pages": 3}
    dead = work.enqueue({})
    end(database, dead, outcome="dead_lettered", error={"type": "ValueError", "message": "no"})
    with pytest.raises(stoker.StokerError, match="ValueError: no"):
        stoker.wait(dead)
    assert stoker.retry(dead) == dead
    assert stoker.cancel(dead, "enough") == "cancelled"
    with pytest.raises(JobCancelled, match="enough"):
        stoker.result(dead)


def test_waiting_hears_of_the_end_soon(database: str) -> None:
    job_id = work.enqueue({})
    ender = threading.Timer(0.1, end, (database, job_id), {"outcome": "completed", "result": "7"})
    ender.start()
    assert stoker.wait(job_id, timeout="10s") == 7
    ender.join()


def test_what_is_not_kept_is_not_found(database: str) -> None:
    session.use(Session(database_url=database, settings=Settings(retention=RetentionSettings(done=0))))
    job_id = work.enqueue({})
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("delete from stoker.jobs")
    with pytest.raises(stoker.StokerError, match="JOB_NOT_FOUND"):
        stoker.wait(job_id, timeout=1)
    session.current_session().own.close()


def test_a_thread_has_one_connection_and_gives_it_back(database: str, admin: psycopg.Connection[Any]) -> None:
    for _ in range(5):
        work.enqueue({})
    mine = backends(admin)
    assert len(mine) == 1
    seen: list[list[int]] = []

    def enqueue_twice() -> None:
        work.enqueue({})
        work.enqueue({})
        seen.append(backends(admin))

    for _ in range(2):
        thread = threading.Thread(target=enqueue_twice)
        thread.start()
        thread.join()
    assert [len(pids) for pids in seen] == [2, 2]
    until(lambda: backends(admin) == mine)
    assert count(admin) == 9


def test_a_connection_that_died_is_replaced_before_it_is_used(database: str, admin: psycopg.Connection[Any]) -> None:
    work.enqueue({})
    for round_no in range(3):
        terminate(admin)
        until(lambda: not backends(admin))
        assert count(admin) == round_no + 1
        work.enqueue({})
    assert count(admin) == 4


def test_a_read_survives_a_connection_that_dies_under_it(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = work.enqueue({})
    tries: list[int] = []

    def dying(driver: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            driver.conn.execute("select pg_terminate_backend(pg_backend_pid())")
        return driver.job(job_id)

    view = session.current_session().run(dying, repeatable=True)
    assert view.id == job_id
    assert len(tries) == 2


def test_an_enqueue_is_never_sent_twice(database: str, admin: psycopg.Connection[Any]) -> None:
    tries: list[int] = []

    def dying(driver: Any) -> Any:
        tries.append(1)
        driver.enqueue([work.new_job({})])
        driver.conn.execute("select pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(DriverUnavailable, match="terminat"):
        session.current_session().run(dying)
    assert (len(tries), count(admin)) == (1, 1)
    work.enqueue({})
    assert count(admin) == 2


def test_a_forked_child_opens_its_own_connection(database: str, admin: psycopg.Connection[Any]) -> None:
    work.enqueue({})
    (parents,) = backends(admin)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work.enqueue({"n": "child"})
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    work.enqueue({})
    assert backends(admin) == [parents]
    assert count(admin) == 3


# the caller's transaction


def test_a_job_is_part_of_the_callers_transaction(database: str, admin: psycopg.Connection[Any]) -> None:
    with psycopg.connect(database, row_factory=dict_row) as conn:
        conn.execute("insert into effects (what) values ('mine')")
        work.enqueue({}, conn=conn)
        work.enqueue_many([{}, {}, {}], conn=conn)
        assert count(admin) == 0
        conn.rollback()
        assert count(admin) == 0
        job_id = work.enqueue({}, conn=conn, idempotency_key="k")
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        conn.commit()
    assert count(admin) == 1
    with psycopg.connect(database) as conn:
        assert stoker.cancel(job_id, conn=conn) == "cancelled"
        conn.rollback()
    view = stoker.get(job_id)
    assert view is not None and view.state == "ready"
    assert backends(admin) != []


def test_a_callers_savepoint_can_be_rolled_back(database: str, admin: psycopg.Connection[Any]) -> None:
    with psycopg.connect(database) as conn:
        work.enqueue({}, conn=conn)
        with conn.transaction() as inner:
            work.enqueue_many([{}, {}], conn=conn)
            raise psycopg.Rollback(inner)
    assert count(admin) == 1


def test_a_duplicate_in_the_callers_transaction(database: str, admin: psycopg.Connection[Any]) -> None:
    first = work.enqueue({}, idempotency_key="k")
    with psycopg.connect(database) as conn:
        with pytest.raises(JobDuplicate) as caught, conn.transaction():
            work.enqueue({}, conn=conn, idempotency_key="k", on_conflict="error")
        assert caught.value.job_id == first
        assert work.enqueue({}, conn=conn, idempotency_key="k") == first


def test_a_duplicate_leaves_the_callers_transaction_usable(database: str, admin: psycopg.Connection[Any]) -> None:
    work.enqueue({}, idempotency_key="k")
    with psycopg.connect(database) as conn:
        mine = work.enqueue({}, conn=conn)
        with pytest.raises(JobDuplicate):
            work.enqueue({}, conn=conn, idempotency_key="k", on_conflict="error")
    assert stoker.get(mine) is not None
    assert count(admin) == 2


def test_the_defaults_of_a_database_do_not_reach_our_connections(database: str, admin: psycopg.Connection[Any]) -> None:
    name = admin.info.dbname
    defaults = {"datestyle": "German, DMY", "client_encoding": "latin1", "default_transaction_read_only": "on"}
    for setting, value in defaults.items():
        admin.execute(f"alter database \"{name}\" set {setting} = '{value}'")  # type: ignore[call-overload]
    try:
        view = stoker.get(work.enqueue({"a": "🙂"}))
        assert view is not None
        assert view.payload == {"a": "🙂"}
    finally:
        for setting in defaults:
            admin.execute(f'alter database "{name}" reset {setting}')  # type: ignore[call-overload]


def test_the_callers_errors_stay_the_callers(database: str) -> None:
    with psycopg.connect(database) as conn:
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("select 1/0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            work.enqueue({}, conn=conn)
        conn.rollback()


class _Pooled:
    """What SQLAlchemy hands out as a pooled connection."""

    def __init__(self, conn: Any) -> None:
        self.driver_connection = conn


class _AlchemyConnection:
    def __init__(self, conn: Any) -> None:
        self.connection = _Pooled(conn)
        self.begun = 0

    def in_transaction(self) -> bool:
        return bool(self.begun)

    def begin(self) -> None:
        self.begun += 1


class _AlchemySession:
    def __init__(self, conn: Any) -> None:
        self.alchemy = _AlchemyConnection(conn)

    def connection(self) -> Any:
        return self.alchemy


class _Django:
    connection: Any = None

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    def ensure_connection(self) -> None:
        self.connection = self.conn


@pytest.mark.parametrize("wrapper", [_AlchemyConnection, _AlchemySession, _Django, _Pooled])
def test_wrapped_connections_are_unwrapped(database: str, admin: psycopg.Connection[Any], wrapper: Any) -> None:
    with psycopg.connect(database) as conn:
        work.enqueue({}, conn=wrapper(conn))
        assert count(admin) == 0
        conn.commit()
    assert count(admin) == 1


def test_sqlalchemy_learns_of_the_transaction_it_must_commit(database: str) -> None:
    with psycopg.connect(database) as conn:
        alchemy = _AlchemyConnection(conn)
        work.enqueue({}, conn=alchemy)
        work.enqueue({}, conn=alchemy)
        assert alchemy.begun == 1


@pytest.mark.parametrize("wrong", [object(), "postgresql://", 3, _Pooled(None), _Pooled(object())])
def test_a_connection_of_another_kind_is_refused(database: str, wrong: Any) -> None:
    with pytest.raises(ConnectionUnusable, match=type(wrong).__name__):
        work.enqueue({}, conn=wrong)
    with pytest.raises(ConnectionUnusable):
        asyncio.run(work.enqueue_async({}, conn=wrong))


# coroutines


def test_coroutines_share_one_connection_of_their_loop(database: str, admin: psycopg.Connection[Any]) -> None:
    async def scenario() -> Any:
        ids = await asyncio.gather(*(work.enqueue_async({"n": n}) for n in range(20)))
        many = await asyncio.gather(*(work.enqueue_many_async([{}] * 30) for _ in range(5)))
        view = await stoker.get_async(ids[0])
        return ids, many, view, backends(admin)

    ids, many, view, pids = asyncio.run(scenario())
    assert len(set(ids)) == 20 and sum(map(len, many)) == 150
    assert view.payload == {"n": 0}
    assert len(pids) == 1
    assert count(admin) == 170
    until(lambda: backends(admin) == [])


def test_coroutines_in_the_callers_transaction(database: str, admin: psycopg.Connection[Any]) -> None:
    class AlchemyAsync:
        def __init__(self, conn: Any) -> None:
            self.conn, self.begun = conn, 0

        def in_transaction(self) -> bool:
            return bool(self.begun)

        async def begin(self) -> None:
            self.begun += 1

        async def get_raw_connection(self) -> Any:
            return _Pooled(self.conn)

    class AlchemyAsyncSession:
        def __init__(self, conn: Any) -> None:
            self.alchemy = AlchemyAsync(conn)

        async def connection(self) -> Any:
            return self.alchemy

    async def scenario() -> None:
        async with await psycopg.AsyncConnection.connect(database) as conn:
            await work.enqueue_async({}, conn=conn)
            await work.enqueue_many_async([{}, {}], conn=AlchemyAsyncSession(conn))
            assert count(admin) == 0
            await conn.rollback()
            await work.enqueue_async({}, conn=AlchemyAsync(conn))
            with pytest.raises(ConnectionUnusable):
                work.enqueue({}, conn=conn)

    asyncio.run(scenario())
    assert count(admin) == 1


def test_a_loops_connection_that_died_is_replaced(database: str, admin: psycopg.Connection[Any]) -> None:
    async def scenario() -> None:
        await work.enqueue_async({})
        terminate(admin)
        while backends(admin):
            await asyncio.sleep(0.01)
        await work.enqueue_async({})

    asyncio.run(scenario())
    assert count(admin) == 2


def test_a_cancelled_coroutine_leaves_a_usable_connection(database: str, admin: psycopg.Connection[Any]) -> None:
    async def scenario() -> None:
        await work.enqueue_async({})
        with psycopg.connect(database) as blocker:
            blocker.execute("lock table stoker.jobs")
            blocked = asyncio.create_task(work.enqueue_async({}))
            await asyncio.sleep(0.1)
            blocked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await blocked
        await asyncio.wait_for(work.enqueue_async({}), 10)

    asyncio.run(scenario())
    assert count(admin) == 2


# what goes wrong before


@pytest.mark.parametrize("url", ["postgresql://u:geheim@127.0.0.1:1/x", "host=127.0.0.1 port=1 password=geheim"])
def test_an_unreachable_database_is_named_without_its_password(url: str) -> None:
    before = session.use(Session(database_url=url, settings=Settings()))
    try:
        for ask in (lambda: work.enqueue({}), lambda: stoker.result(1), lambda: asyncio.run(work.enqueue_async({}))):
            with pytest.raises(DriverUnavailable, match=r"127\.0\.0\.1:1") as caught:
                ask()
            assert "geheim" not in str(caught.value)
        started = time.monotonic()
        with pytest.raises(DriverUnavailable):
            stoker.wait(1, timeout=0.2)
        assert time.monotonic() - started >= 0.2
    finally:
        session.use(before)


def test_a_database_without_our_schema_asks_for_a_migration(database: str) -> None:
    bare = psycopg.conninfo.make_conninfo(database, dbname="postgres")
    before = session.use(Session(database_url=bare, settings=Settings()))
    try:
        for ask in (lambda: work.enqueue({}), lambda: stoker.result(1), lambda: asyncio.run(work.enqueue_async({}))):
            with pytest.raises(SchemaTooOld, match="stoker migrate"):
                ask()
        with psycopg.connect(bare) as conn, pytest.raises(SchemaTooOld):
            work.enqueue({}, conn=conn)
        session.current_session().own.close()
    finally:
        session.use(before)


def test_other_drivers_do_not_exist() -> None:
    with pytest.raises(DriverNotImplemented, match="redis"):
        stoker.configure(database_url="redis://localhost")
    with pytest.raises(SettingsInvalid, match="database_url"):
        stoker.configure(database_url="mysql://localhost")


def test_the_settings_name_the_database(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOKER_DATABASE_URL", database)
    monkeypatch.setenv("STOKER_REQUIRE_TENANT", "1")
    before = session.use(Session())
    try:
        with pytest.raises(stoker.StokerError, match="TENANT_REQUIRED"):
            work.enqueue({})
        assert stoker.get(work.enqueue({}, tenant="t")) is not None
        session.current_session().own.close()
    finally:
        session.use(before)
