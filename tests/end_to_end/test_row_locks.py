"""Short jobs held by a row lock alone: what others see of them, and how those of one batch end."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from stoker.drivers.base import NewJob
from tests.end_to_end.short_stage import Stage, staged
from tests.side_table import Database
from tests.support import scaled, until


@pytest.fixture(scope="module")
def running_stage(worker_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One supervisor with two workers for all tests that leave it in good health."""
    with closing(Database(worker_database)) as db:
        db.conn.execute("truncate stoker.jobs, stoker.finished, stoker.attempts, stoker.cancels, stoker.hosts")
        directory = tmp_path_factory.mktemp("stage")
        with staged(directory, db, workers=2, patient=True, STOKER_KILL_AFTER="1s") as stage:
            yield stage


@pytest.fixture
def stage(running_stage: Stage) -> Stage:
    running_stage.warm()
    return running_stage


class TestHolding:
    """What a lock alone looks like from outside, and when it becomes a lease."""

    def test_nothing_is_written_and_nobody_gets_it(self, stage: Stage) -> None:
        jobs = stage.put_some_locked(*[{}, {"do": "look"}] * 100)
        assert set(stage.effects.said(*jobs)) <= {"locked", "leased"}
        assert set(stage.effects.times("start", jobs).values()) == {1}
        assert stage.column("select attempt, crashes from stoker.finished where id = any(%s)", jobs) == {(1, 0)}
        until(lambda: stage.transactions() == 0)

    def test_one_that_runs_on_is_leased_and_what_was_behind_it_runs_elsewhere(self, stage: Stage) -> None:
        long, *behind = stage.put_locked({"do": "hold"}, *[{}] * 30, undo=stage.effects.release)
        stage.db.until_all_done(behind)
        until(lambda: stage.db.state(long) == "running")
        number = stage.db.one("select run_no from stoker.jobs where id = %s", long)
        until(lambda: stage.transactions() == 0)
        until(lambda: stage.effects.said(long) == {"locked": 1, f"run {number}": 1})
        assert not stage.effects.times("end")[long]
        stage.effects.release(long)
        assert stage.db.until_state(long, "done").attempt == 1
        assert stage.db.job(long).run_no == number
        assert set(stage.effects.times("start", [long, *behind]).values()) == {1}

    def test_a_batch_that_became_slow_is_shared(self, stage: Stage) -> None:
        """Each job is in time, and all of them together would keep the other worker waiting for a second."""

        def are_shared() -> bool:
            stage.db.until_all_done(stage.put(*[{}] * 2000))
            slower = stage.put(*[{"do": "nap", "s": 0.01}] * 100)
            stage.db.until_all_done(slower)
            assert set(stage.effects.times("start", slower).values()) == {1}
            ran = Counter(one.pid for one in stage.effects.all() if one.job_id in slower and one.what == "end")
            return len(ran) == 2 and min(ran.values()) > 10

        # Who gets no processor takes no share.
        until(are_shared)

    def test_who_reads_the_fencing_token_has_a_lease(self, stage: Stage) -> None:
        jobs = stage.put_some_locked(*[{"do": "number"}, {}, {}] * 20)
        how = stage.effects.said(*jobs[::3])
        assert set(how) <= {"locked", "leased", "token"}
        assert how["token"] == 20
        assert set(stage.effects.times("start", jobs).values()) == {1}

    def test_who_moves_its_deadline_has_a_lease(self, stage: Stage) -> None:
        jobs = stage.put_some_locked(*[{"do": "extend"}, {}, {}] * 20)
        how = stage.effects.said(*jobs[::3])
        assert set(how) <= {"locked", "leased", "extended"}
        assert how["extended"] == 20
        assert set(stage.effects.times("start", jobs).values()) == {1}

    def test_a_copy_of_the_worker_leaves_the_connection_alone(self, stage: Stage) -> None:
        ready = len(stage.supervisor.events("worker.ready"))
        jobs = stage.put_some_locked(*[{}, {"do": "fork_and_ask"}] * 5)
        assert set(stage.effects.times("start", jobs).values()) == {1}
        assert "worker.settle_postponed" not in stage.supervisor.log
        assert len(stage.supervisor.events("worker.ready")) == ready

    def test_leases_where_they_are_asked_for(self, stage: Stage) -> None:
        mixed = [NewJob(name=name, queue="default", payload='{"do": "look"}') for name in ("short", "leased")]
        jobs = [stored.id for stored in stage.db.driver.enqueue(mixed * 50)]
        stage.db.until_all_done(jobs)
        assert stage.effects.said(*jobs[1::2]) == {"leased": 50}
        assert set(stage.effects.times("start", jobs).values()) == {1}

    @pytest.mark.parametrize("name", ["each", "together"])
    def test_a_completion_is_visible_to_the_next_body_if_asked_for(self, stage: Stage, name: str) -> None:
        def some_are_unwritten() -> bool:
            jobs = stage.put_some_locked(*[{}] * 100, name=name)
            return stage.effects.said(*jobs)["unwritten"] > 0

        if name == "together":
            until(some_are_unwritten)
        else:
            assert not some_are_unwritten()


class TestHoldingTheGil:
    """Nobody can make a lock a lease while one C call has the interpreter."""

    def test_the_transaction_lasts_as_long_and_then_all_goes_on(self, stage: Stage) -> None:
        def lasts() -> bool:
            long, *behind = stage.put_locked({"do": "gil", "s": 1}, *[{"do": "look"}] * 10, undo=lambda _: None)
            open_now = stage.transactions()
            stage.db.until_all_done([long, *behind])
            assert set(stage.effects.times("start", [long, *behind]).values()) == {1}
            until(lambda: stage.transactions() == 0)
            assert stage.db.job(long).attempt == 1
            return open_now >= 1

        # It may be over before this process gets to look.
        until(lasts)

    def test_its_hard_timeout_blames_it(self, stage: Stage) -> None:
        before, job, behind = stage.put_locked(
            {}, {"do": "gil", "s": 60}, {}, of=1, undo=lambda _: None, name="limited", max_attempts=1
        )
        view = stage.db.until_state(job, "dead")
        stage.db.until_all_done([before, behind])
        # Until the first death is noted the other worker may start it too, and whoever comes in place of the first.
        assert set(stage.effects.said(job)) <= {"locked", "leased"}
        assert (view.error["code"], view.attempt, view.crashes) == ("STOKER_JOB_TIMEOUT", 1, 0)
        assert stage.effects.times("start")[job] <= 1 + stage.workers
        assert stage.column("select crashes from stoker.finished where id = any(%s)", [before, behind]) == {0}

    def test_a_cancel_request_ends_it(self, stage: Stage) -> None:
        (job,) = stage.put_locked({"do": "gil", "s": 60}, undo=lambda one: stage.db.driver.cancel(one, "again"))
        assert stage.db.driver.cancel(job, "no longer wanted") == "requested"
        view = stage.db.until_state(job, "cancelled")
        # The same here: whoever starts it is told to end it as well.
        assert 1 <= stage.effects.times("start")[job] <= 1 + stage.workers
        assert view.crashes == 0
        until(lambda: stage.db.one("select count(*) from stoker.cancels") == 0)


class TestBatches:
    """Whatever a job of a batch does or becomes, nobody waits for its row, and its neighbours end as they should."""

    @pytest.fixture
    def refusing(self, stage: Stage) -> Iterator[None]:
        """A result that PostgreSQL does not take."""
        stage.db.conn.execute("alter table stoker.finished add constraint refuses check (result <> '\"refused\"')")
        yield
        stage.db.conn.execute("alter table stoker.finished drop constraint refuses")

    def test_every_ending_at_once(self, stage: Stage, refusing: None) -> None:
        cases = [{}, {"do": "answer", "answer": {"a": 1}}, {"do": "fail"}, {"do": "answer", "answer": "refused"}]
        cases += [{"do": "number"}]
        for _ in range(scaled(2, 50)):
            ids = stage.put(*cases * 5)
            stage.until_none_is_left()
            plain, answers, failing, refused, numbered = (ids[at::5] for at in range(5))
            good = plain + answers + numbered
            assert {stage.db.state(job) for job in good + failing} == {"done"}
            assert [stage.db.job(job).result for job in answers] == [{"a": 1}] * 5
            assert {stage.db.job(job).attempt for job in failing} == {2}
            for view in map(stage.db.job, refused):
                assert (view.state, view.error["type"], view.attempt) == ("dead", "CheckViolation", 1)
            starts = stage.effects.times("start", ids)
            # A refused statement ends the transaction, and the other worker may be faster than who had the locks.
            assert all(1 <= starts[job] - (job in failing) <= 1 + len(refused) for job in ids), starts
            stage.warm()

    @pytest.mark.parametrize(("rule", "expected"), [("dedupe", "same"), ("error", "duplicate"), ("replace", "same")])
    def test_a_job_that_enqueues_its_own_key(self, stage: Stage, rule: str, expected: str) -> None:
        own_key = {"do": "own_key", "rule": rule, "keys": rule}
        ids = stage.put_some_locked(*[{**own_key, "at": at} for at in range(20)], keys=rule)
        how = stage.effects.said(*ids)
        assert set(how) <= {"locked", "leased", expected}
        assert how[expected] == 20
        assert set(stage.effects.times("start", ids).values()) == {1}
        assert stage.db.one("select count(*) from stoker.jobs") == 0

    @pytest.mark.parametrize("fails", [False, True])
    @pytest.mark.parametrize("offset", [-1, 0, 1])
    def test_cancelling_within_the_batch(self, stage: Stage, offset: int, fails: bool) -> None:
        victim = {"do": "fail", "attempts": 100} if fails else {}
        trio = [{}, {"do": "cancel", "offset": offset, "fails": fails and offset == 0}, {}]
        if offset:
            trio[1 + offset] = victim
        ids = stage.put_some_locked(*trio * 8)
        victims = ids[1 + offset :: 3]
        assert {stage.db.state(job) for job in ids if job not in victims} == {"done"}
        how = stage.effects.said(*ids[1::3])
        assert set(how) <= {"locked", "leased", "requested", "cancelled", "ended"}
        # A body that returned is done, and what would have been tried again is not; one may be unwound just after it
        # wrote that it ends.
        ended = {job for job in victims if stage.effects.times("end")[job]}
        done = {job for job in victims if stage.db.state(job) == "done"}
        assert {stage.db.state(job) for job in victims if job not in done} <= {"cancelled"}
        assert done <= ended and (done or len(ended) <= 1)
        until(lambda: stage.db.one("select count(*) from stoker.cancels") == 0)

    def test_a_job_that_asks_about_itself(self, stage: Stage) -> None:
        def seen_as_ready() -> bool:
            nonlocal ids
            ids = stage.put_some_locked(*[{"do": "ask"}, *[{}] * 9] * 20)[::10]
            return stage.effects.said(*ids)["seen ready"] > 0

        ids: list[int] = []
        until(seen_as_ready)
        how = stage.effects.said(*ids)
        assert how["not retried"] == 20
        assert how["seen ready"] + how["seen running"] == 20
        children = [int(what.split()[1]) for what in how if re.match(r"child \d+", what)]
        assert len(children) == 20 and {stage.db.state(child) for child in children} == {"done"}
        assert set(stage.effects.times("start", ids).values()) == {1}
