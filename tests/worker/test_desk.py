"""The worker's desk on a real connection: who has which row when, and what a lost connection or a refusal costs."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from stoker.database import connect
from stoker.drivers.base import Claimed, Holder, NewJob, Settlement
from stoker.drivers.postgres import PostgresDriver
from stoker.settings import Settings
from stoker.settings.model import RetentionSettings
from tests.side_table import Database
from tests.support import until
from worker_proc.board import Board
from worker_proc.channel import Channel
from worker_proc.control import Control
from worker_proc.desk import Desk
from worker_proc.desk_connection import DeskClosed

HOLDER = Holder(77, 3)


class Office:
    """A desk, and what others see of its rows."""

    def __init__(self, url: str, control: Control, **settings: Any) -> None:
        self.lost: list[Settlement] = []
        self.held: list[int] = []
        self.desk = Desk(
            control,
            settings=Settings(database_url=url, **settings),
            name="stoker: desk under test",
            queue="default",
            held=lambda: self.held,
            on_lost=self.lost.append,
        )
        self.db = Database(url)
        self.desk.open()

    def close(self) -> None:
        self.desk.close()
        self.db.close()

    def lock(self, limit: int = 10) -> list[Claimed]:
        claims = self.desk.exchange(limit, HOLDER, by_lock=True)
        assert claims.locked
        return claims.jobs

    def end(self, run: Claimed, outcome: Any = "completed", **facts: Any) -> None:
        self.desk.add(Settlement(job_id=run.id, run_no=run.run_no, outcome=outcome, **facts))

    def free(self) -> list[int]:
        """Rows that another session would get."""
        query = "select id from stoker.jobs where state = 'ready' order by id for update skip locked"
        return [row[0] for row in self.db.conn.execute(query)]

    def rows(self) -> list[tuple[Any, ...]]:
        return self.db.conn.execute("select id, state, run_no, attempt, host from stoker.jobs order by id").fetchall()

    def done(self) -> list[tuple[Any, ...]]:
        return self.db.conn.execute("select id, state, run_no, attempt from stoker.finished order by id").fetchall()

    def session(self, column: str) -> Any:
        """What the server says of the desk's session."""
        activity = "from pg_stat_activity where application_name = %s and datname = current_database()"
        return self.db.one(f"select {column} {activity}", "stoker: desk under test")

    def cut(self) -> None:
        """End the desk's session and wait until its locks are gone."""
        assert self.session("pg_terminate_backend(pid, 5000)")

    def refuse(self, result: str) -> None:
        self.db.conn.execute(f"alter table stoker.finished add constraint refuses check (result <> '{result}')")

    def take(self, limit: int = 10) -> list[Claimed]:
        """Another worker claims."""
        return self.db.driver.claim("default", limit, Holder(88, 4))


@pytest.fixture
def control() -> Iterator[Control]:
    board = Board.create()
    slot = board.add_slot(1)
    slot.reset(generation=1, claim_no=3)
    ours, theirs = Channel.pair()
    event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    control = Control(channel=theirs, board=board, slot=slot, event_fd=event_fd, grace=5.0)
    yield control
    for end in (ours, theirs, control._signals, control._signalled):
        end.close()
    for fd in (control._poke, event_fd):
        os.close(fd)
    slot._words = memoryview(b"").cast("q")
    board.close()


@pytest.fixture
def open_office(database_url: str, control: Control) -> Iterator[Callable[..., Office]]:
    offices: list[Office] = []

    def open_one(**settings: Any) -> Office:
        offices.append(Office(database_url, control, **settings))
        return offices[-1]

    yield open_one
    for office in offices:
        office.db.conn.execute("alter table stoker.finished drop constraint if exists refuses")
        office.close()


@pytest.fixture
def office(open_office: Callable[..., Office]) -> Office:
    return open_office()


class TestLocks:
    """What a claim by row locks writes: nothing, until it ends."""

    def test_locked_rows_are_nobody_elses_and_unwritten(self, office: Office) -> None:
        first, second, third = office.db.enqueue("job", times=3)
        runs = office.lock(2)
        assert [(run.id, run.run_no, run.attempt) for run in runs] == [(first, 1, 1), (second, 1, 1)]
        assert office.free() == [third]
        assert office.rows() == [(job, "ready", 0, 0, None) for job in (first, second, third)]
        assert office.desk.holds_locks

    def test_an_empty_claim_leaves_nothing_open(self, office: Office) -> None:
        assert office.lock() == []
        assert not office.desk.holds_locks
        assert office.session("state") == "idle"

    def test_one_round_trip_ends_the_last_batch_and_locks_the_next(self, office: Office) -> None:
        ids = office.db.enqueue("job", times=4)
        for run in office.lock(2):
            office.end(run, result='{"a": 1}' if run.id == ids[0] else None)
        assert [run.id for run in office.lock(2)] == ids[2:]
        assert office.done() == [(ids[0], "done", 1, 1), (ids[1], "done", 1, 1)]
        assert office.db.job(ids[0]).result == {"a": 1}
        assert office.free() == []

    def test_finished_rows_that_are_not_kept(self, open_office: Callable[..., Office]) -> None:
        office = open_office(retention=RetentionSettings(done=0.0))
        ids = office.db.enqueue("job", times=2)
        for run in office.lock():
            office.end(run)
        office.desk.settle()
        assert (office.rows(), office.done(), len(ids)) == ([], [], 2)

    def test_every_ending_in_one_batch(self, office: Office) -> None:
        ids = office.db.enqueue("job", times=5)
        done, retried, dead, interrupted, _unstarted = office.lock()
        office.end(done)
        office.end(retried, "retried", delay=60.0, error={"message": "m"})
        office.end(dead, "dead_lettered", error={"message": "m"})
        office.end(interrupted, "interrupted")
        office.desk.settle()
        assert office.done() == [(ids[0], "done", 1, 1), (ids[2], "dead", 1, 1)]
        assert office.rows() == [
            (ids[1], "delayed", 1, 1, None),
            (ids[3], "ready", 1, 0, None),
            (ids[4], "ready", 0, 0, None),
        ]
        assert not office.lost

    def test_a_claim_ahead_leaves_locks_alone(self, office: Office) -> None:
        """It was asked for while a leased body ran, and comes when the next ones are locked."""
        ids = office.db.enqueue("job", times=3)
        runs = office.lock(2)
        assert office.desk.exchange(2, HOLDER, ahead=True).jobs == []
        assert office.free() == ids[2:]
        for run in runs:
            office.end(run)
        assert [run.id for run in office.desk.exchange(2, HOLDER).jobs] == ids[2:]
        assert [row[0] for row in office.done()] == ids[:2]

    def test_leases_go_back_and_locks_end_even_if_they_are_let_go_together(self, office: Office) -> None:
        ids = office.db.enqueue("job", times=4)
        leased = office.desk.exchange(2, HOLDER).jobs
        locked = office.lock(2)
        office.desk.let_go([*locked, *leased])
        office.desk.settle()
        assert office.rows() == [(job, "ready", 1 if job in ids[:2] else 0, 0, None) for job in ids]
        assert [run.id for run in office.lock()] == ids
        assert not office.lost

    def test_conversion(self, office: Office) -> None:
        ids = office.db.enqueue("job", times=3)
        runs = office.lock()
        office.end(runs[0])
        office.desk.settle(keep=[runs[1]])
        assert office.rows() == [(ids[1], "running", 1, 1, 77), (ids[2], "ready", 0, 0, None)]
        assert office.free() == [ids[2]]
        office.end(runs[1])
        office.desk.settle()
        assert [row[0] for row in office.done()] == ids[:2]
        assert not office.lost

    def test_a_run_that_ends_while_it_is_converted_is_not_leased(self, office: Office) -> None:
        office.db.enqueue("job", times=1)
        (run,) = office.lock()
        office.end(run)
        office.desk.settle(keep=[run])
        assert (office.rows(), len(office.done())) == ([], 1)

    def test_suspects_are_not_claimed_in_either_way(self, office: Office) -> None:
        first, second = office.db.enqueue("job", times=2)
        office.db.conn.execute("insert into stoker.suspects values (%s, 1, 1, 1, '{}')", (first,))
        runs = office.lock()
        assert [run.id for run in runs] == [second]
        office.desk.let_go(runs)
        office.desk.settle()
        assert [run.id for run in office.desk.exchange(10, HOLDER).jobs] == [second]

    def test_cancel_requests_end_what_would_be_tried_again_and_are_forgotten(self, office: Office) -> None:
        returns, fails, waits = office.db.enqueue("job", times=3)
        runs = office.lock()
        for job in (returns, fails, waits):
            assert office.db.driver.cancel(job, "why") == "requested"
        office.end(runs[0])
        office.end(runs[1], "retried", delay=1.0)
        office.desk.settle()
        assert office.done() == [(returns, "done", 1, 1), (fails, "cancelled", 1, 1)]
        assert office.db.driver.cancel(waits, "again") == "cancelled"
        assert office.db.one("select count(*) from stoker.cancels") == 0

    def test_no_locks_where_a_session_may_be_lent_to_others(
        self, open_office: Callable[..., Office], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def through_a_proxy(url: str, **options: Any) -> psycopg.Connection[Any]:
            conn = connect(url, **options)
            conn.prepare_threshold = None
            return conn

        monkeypatch.setattr("worker_proc.desk_connection.connect", through_a_proxy)
        office = open_office()
        office.db.enqueue("job", times=2)
        claims = office.desk.exchange(10, HOLDER, by_lock=True)
        assert (claims.locked, [row[1] for row in office.rows()]) == (False, ["running", "running"])
        for run in claims.jobs:
            office.end(run)
        assert not office.desk.exchange(10, HOLDER, by_lock=True).locked
        assert len(office.done()) == 2


class TestRefusals:
    """An ending that PostgreSQL never takes becomes that job's error; its neighbours end as they would have."""

    def test_in_a_batch_of_locks(self, office: Office) -> None:
        ids = office.db.enqueue("job", times=4)
        office.refuse("1")
        runs = office.lock(3)
        for run in runs:
            office.end(run, result="1" if run is runs[1] else "2")
        assert [run.id for run in office.lock()] == ids[3:]
        assert [(row[0], row[1]) for row in office.done()] == [(ids[0], "done"), (ids[1], "dead"), (ids[2], "done")]
        assert office.db.job(ids[1]).error["type"] == "CheckViolation"
        assert not office.lost

    def test_again_and_again_on_one_connection(self, office: Office) -> None:
        """psycopg forgets and deallocates what it prepared after a rollback; both at the same moment, please."""
        office.refuse("1")
        session = office.session("pid")
        states: dict[Any, str] = {"completed": "done", "retried": "delayed", "dead_lettered": "dead"}
        for outcome in (*states, *states):
            bad, good, other = office.db.enqueue("job", times=3)
            runs = office.lock(3)
            office.end(runs[0], result="1")
            office.end(runs[1], result="2")
            office.end(runs[2], outcome, delay=60.0, error={"message": "m"})
            office.lock(3)
            assert [office.db.state(job) for job in (bad, good)] == ["dead", "done"]
            assert (
                office.db.state(other) == {"completed": "done", "retried": "delayed", "dead_lettered": "dead"}[outcome]
            )
        pid = office.session("pid")
        assert (pid, office.lost) == (session, [])

    def test_while_another_job_of_the_batch_executes(self, office: Office) -> None:
        ids = office.db.enqueue("job", times=3)
        office.refuse("1")
        runs = office.lock()
        office.end(runs[0], result="1")
        office.desk.settle(keep=[runs[1]])
        assert [row[1] for row in office.done()] == ["dead"]
        assert office.rows() == [(ids[1], "running", 1, 1, 77), (ids[2], "ready", 0, 0, None)]
        assert not office.desk.lost(runs[1])
        office.end(runs[1])
        office.desk.settle()
        assert (office.db.state(ids[1]), office.lost) == ("done", [])

    def test_of_leases_right_after_connecting(self, office: Office) -> None:
        """The statements are not prepared yet, and then the first one fails."""
        office.refuse("1")
        good, bad = office.db.enqueue("job", times=2)
        runs = office.desk.exchange(10, HOLDER).jobs
        office.end(runs[0], "retried", delay=60.0, error={"message": "m"})
        office.end(runs[1], result="1")
        assert office.lock() == []
        (later,) = office.db.enqueue("job")
        (run,) = office.lock()
        office.end(run)
        office.desk.settle()
        assert [office.db.state(job) for job in (good, bad, later)] == ["delayed", "dead", "done"]
        assert not office.lost


class TestLosingTheConnection:
    """The locks are gone with it: an ending is written if nobody touched the row meanwhile, and left to them if so."""

    def test_endings_that_nobody_else_saw_are_written(self, office: Office) -> None:
        ids = office.db.enqueue("job", times=3)
        runs = office.lock()
        office.end(runs[0], result="1")
        office.end(runs[1], "retried", delay=60.0, error={"message": "m"})
        office.cut()
        with pytest.raises(DeskClosed):
            office.lock()
        assert (office.desk.pending, office.desk.holds_locks, office.free()) == (2, False, ids)
        office.desk.open()
        # Below the mark until the next walk.
        assert [run.id for run in until(office.lock)] == ids[2:]
        assert office.done() == [(ids[0], "done", 1, 1)]
        assert office.rows()[0] == (ids[1], "delayed", 1, 1, None)
        assert not office.lost

    def test_endings_of_rows_that_somebody_took_are_left_to_them(self, office: Office) -> None:
        first, second = office.db.enqueue("job", times=2)
        for run in office.lock():
            office.end(run)
        office.cut()
        with pytest.raises(DeskClosed):
            office.desk.settle()
        (theirs,) = office.take(1)
        assert (theirs.id, theirs.run_no) == (first, 1)
        office.desk.open()
        office.desk.settle()
        assert office.done() == [(second, "done", 1, 1)]
        assert office.rows() == [(first, "running", 1, 1, 88)]
        office.db.driver.settle([Settlement(job_id=first, run_no=1, outcome="completed")])
        assert office.db.state(first) == "done"

    def test_endings_of_rows_that_somebody_has_locked_are_left_to_them(self, office: Office) -> None:
        (job,) = office.db.enqueue("job")
        (run,) = office.lock()
        office.end(run)
        office.cut()
        with pytest.raises(DeskClosed):
            office.desk.settle()
        with office.db.conn.transaction():
            assert office.free() == [job]
            office.desk.open()
            office.desk.settle()
        assert office.rows() == [(job, "ready", 0, 0, None)]

    def test_endings_of_rows_that_somebody_ran_are_left_to_them(self, office: Office) -> None:
        (job,) = office.db.enqueue("job")
        (run,) = office.lock()
        office.end(run)
        office.cut()
        with pytest.raises(DeskClosed):
            office.desk.settle()
        office.take()
        office.db.driver.settle([Settlement(job_id=job, run_no=1, outcome="retried", delay=60.0)])
        office.desk.open()
        office.desk.settle()
        assert office.rows() == [(job, "delayed", 1, 1, None)]
        assert office.desk.pending == 0

    def test_a_commit_whose_answer_was_lost_is_not_repeated(self, office: Office) -> None:
        done, again = office.db.enqueue("job", times=2)
        runs = office.lock()
        office.end(runs[0])
        office.end(runs[1], "retried", error={"message": "m"})
        office.desk.settle()
        # What the desk would do if it had not heard of it.
        office.end(runs[0])
        office.end(runs[1], "retried", error={"message": "m"})
        office.desk._adrift = {done, again}
        office.desk.settle()
        assert office.done() == [(done, "done", 1, 1)]
        assert office.rows() == [(again, "ready", 1, 1, None)]

    def test_a_job_that_executes_is_lost_when_it_cannot_be_leased(self, office: Office) -> None:
        (job,) = office.db.enqueue("job")
        (run,) = office.lock()
        office.cut()
        with pytest.raises(DeskClosed):
            office.desk.settle(keep=[run])
        assert office.desk.lost(run)
        assert office.free() == [job]

    def test_a_job_is_not_lost_any_more_when_it_is_claimed_anew(self, office: Office) -> None:
        office.db.enqueue("job")
        (run,) = office.lock()
        office.cut()
        with pytest.raises(DeskClosed):
            office.desk.settle(keep=[run])
        office.desk.open()
        (again,) = until(office.lock)
        assert not office.desk.lost(again)
        office.end(again)
        office.desk.settle()
        assert len(office.done()) == 1

    def test_leases_survive(self, office: Office) -> None:
        (job,) = office.db.enqueue("job")
        (run,) = office.lock()
        office.desk.settle(keep=[run])
        office.cut()
        office.held = [job]
        with pytest.raises(DeskClosed):
            office.lock()
        office.desk.open()
        assert office.lock() == []
        office.held = []
        office.end(run)
        office.desk.settle()
        assert office.done() == [(job, "done", 1, 1)]


def test_two_desks_share_a_queue_without_waiting(open_office: Callable[..., Office]) -> None:
    one, other = open_office(), open_office()
    ids = one.db.enqueue("job", times=6)
    one.db.driver.enqueue([NewJob(name="job", queue="elsewhere", payload="{}")])
    assert [run.id for run in one.lock(2)] == ids[:2]
    assert [run.id for run in other.lock(2)] == ids[2:4]
    assert [run.id for run in PostgresDriver(one.db.conn).claim("default", 10, HOLDER)] == ids[4:]
