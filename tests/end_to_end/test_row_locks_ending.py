"""Workers that end in the middle of a batch of locked jobs: killed, stopped, cut off from the database."""

import os
import random
import shutil
import signal
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from stoker import embedded
from stoker.migrate import migrate
from tests.end_to_end.short_stage import Stage, staged
from tests.proxy import Proxy
from tests.side_table import EFFECTS, Database
from tests.support import scaled, until

SESSIONS = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and application_name like 'stoker: worker%%'"
)


class TestDying:
    """A process that dies on a locked job: the job is blamed, exactly; its neighbours are not."""

    @pytest.mark.parametrize(("count", "by"), [(2, "signal"), (4, "exit")])
    def test_attempts_are_exact_and_neighbours_are_not_blamed(
        self, tmp_path: Path, db: Database, count: int, by: str
    ) -> None:
        with staged(tmp_path, db, workers=count, patient=True) as stage:
            for _ in range(scaled(1, 30)):
                ids = stage.put_locked(
                    *[{}] * 15, {"do": "die", "by": by}, *[{}] * 15, of=15, undo=lambda one: db.until_state(one, "dead")
                )
                killer, neighbours = ids[15], ids[:15] + ids[16:]
                view = db.until_state(killer, "dead")
                db.until_all_done(neighbours)
                # Until the first death is noted each of the others may run the batch, and die of it: a run that had
                # begun when the last allowed death was written is too many to be counted.
                starts, deaths = stage.effects.times("start", ids), stage.effects.pids(killer)
                assert 3 <= view.crashes == view.attempt <= starts[killer] == len(deaths) <= 3 + count - 1
                assert [one["attempt"] for one in view.attempts] == list(range(1, view.crashes + 1))
                # Deaths at the same moment are written in no particular order.
                assert {one["error"]["pid"] for one in view.attempts} <= set(deaths)
                assert len({one["error"]["pid"] for one in view.attempts}) == view.crashes
                assert view.error["code"] == "STOKER_WORKER_CRASHED"
                assert (view.error["signal"], view.error["exit_code"]) == ((9, None) if by == "signal" else (None, 9))
                assert stage.effects.said(killer)["locked"] >= 1
                # Once more for each process that died with its ending unwritten.
                assert all(1 <= starts[one] <= 1 + len(deaths) for one in neighbours), starts
                assert stage.column("select attempt, crashes from stoker.finished where id = any(%s)", neighbours) == {
                    (1, 0)
                }
                until(lambda: db.one("select count(*) from stoker.suspects") == 0)
                stage.supervisor.ready()
                stage.warm()

    def test_one_crash_is_written_and_the_next_run_is_alone(self, tmp_path: Path, db: Database) -> None:
        with staged(tmp_path, db, patient=True) as stage:
            for _ in range(scaled(2, 30)):
                (job,) = stage.put_locked({"do": "die", "attempts": 1}, undo=lambda one: db.until_state(one, "done"))
                view = db.until_state(job, "done")
                check_one_death_or_two(stage, job)
                assert [one["error"]["signal"] for one in view.attempts] == [9] * view.crashes

    def test_what_the_job_left_behind_does_not_keep_its_lock(self, tmp_path: Path, db: Database) -> None:
        with staged(tmp_path, db, patient=True) as stage:
            batch = {"do": "leave_a_daemon"}, {"do": "die", "attempts": 1}, {}
            before, job, behind = stage.put_locked(*batch, of=1, undo=lambda one: db.until_state(one, "done"))
            db.until_all_done([before, job, behind])
            check_one_death_or_two(stage, job)

    def test_what_it_was_not_running_is_free_at_once(self, tmp_path: Path, db: Database) -> None:
        def is_killed() -> bool:
            holder, *behind = stage.put_locked(
                {"do": "gil", "s": 2, "attempts": 1}, *[{}] * 20, undo=lambda one: db.until_state(one, "done")
            )
            os.kill(stage.effects.pids(holder)[0], signal.SIGKILL)
            view = db.until_state(holder, "done")
            db.until_all_done(behind)
            # The other worker may have started it before the death was noted; then that run was the first to end.
            assert (view.crashes, view.attempt) in ((1, 2), (0, 1))
            assert stage.column("select crashes from stoker.finished where id = any(%s)", behind) == {0}
            runs = stage.effects.times("start")[holder]
            assert 1 + view.crashes <= runs <= 2
            return runs == 2

        with staged(tmp_path, db, workers=2, patient=True) as stage:
            # It may be over before the kill comes.
            until(is_killed)


def check_one_death_or_two(stage: Stage, job: int) -> None:
    """It killed its process in its first attempt, and one more if somebody started that before the death was noted."""
    view = stage.db.job(job)
    assert view.crashes in (1, 2)
    assert (view.attempt, stage.effects.times("start")[job]) == (view.crashes + 1, view.crashes + 1)
    # By lease after the first: then the next death is its own for certain.
    assert stage.effects.said(job) == {"locked": 1, "leased": view.crashes}


class TestStopping:
    """A worker that is to go in the middle of its batch: what ended is written, the rest is free."""

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
    def test_of_everything(self, tmp_path: Path, db: Database, number: int) -> None:
        for _ in range(scaled(1, 30)):
            with staged(tmp_path, db, workers=2, STOKER_GRACE="30s") as stage:
                # Far more than is done before it hears of its end.
                ids = stage.put(*[{"do": "nap", "s": 0.002}] * 20_000)
                until(lambda: len(stage.effects.times("end")) > 50)
                code, _ = stage.supervisor.stop(number)
                assert code == 0
            check(stage, ids)
            assert db.one("select count(*) from stoker.jobs") > 0
            until(lambda: not db.one(SESSIONS))
            db.conn.execute("truncate stoker.jobs")

    def test_of_one_worker_after_the_other(self, tmp_path: Path, db: Database) -> None:
        (tmp_path / "stoker.toml").write_text("[queues.default]\nmax_jobs = 300\njitter = 0.0\n")
        with staged(tmp_path, db, workers=2) as stage:
            ids: list[int] = []

            def several_came() -> bool:
                ids.extend(stage.put(*[{"do": "nap", "s": 0.001}] * scaled(1500, 50_000)))
                db.until_all_done(ids)
                return len(stage.supervisor.events("worker.ready")) > 3

            until(several_came)
            assert not stage.supervisor.events("worker.locks_lost")
        check(stage, ids)

    def test_for_a_reload(self, tmp_path: Path, db: Database) -> None:
        with staged(tmp_path, db, workers=2) as stage:
            ids = stage.put(*[{"do": "nap", "s": 0.002}] * scaled(1000, 10_000))
            for times in range(1, scaled(2, 20)):
                ready = len(stage.supervisor.events("worker.ready"))
                until(lambda: len(stage.effects.times("end")) > 100 * times)  # noqa: B023
                stage.supervisor.send(signal.SIGHUP)
                until(lambda: len(stage.supervisor.events("worker.ready")) >= ready + 2)  # noqa: B023
            db.until_all_done(ids)
        check(stage, ids)


def check(stage: Stage, ids: list[int]) -> None:
    """Everything that started ended once and is done; everything else waits as if nothing had happened."""
    starts, ends = stage.effects.times("start"), stage.effects.times("end")
    assert starts == ends and set(starts.values()) == {1}
    assert stage.column("select state, attempt from stoker.jobs") <= {("ready", 0)}
    done = stage.column("select id from stoker.finished where attempt = 1 and state = 'done' and id = any(%s)", ids)
    assert done == set(starts)


class TestLosingTheConnection:
    """Nothing is lost, and only what a worker had in hand at that moment may run again."""

    def test_sessions_that_are_ended(self, tmp_path: Path, db: Database) -> None:
        with staged(tmp_path, db, workers=2) as stage:
            ids = stage.put(*[*[{"do": "nap", "s": 0.0005}] * 9, {"do": "fail"}] * scaled(300, 5_000))
            cuts = 0
            while not cuts or db.one("select count(*) > 0 from stoker.jobs where state <> 'delayed'"):
                cuts += db.one(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database()"
                    " and application_name = 'stoker: worker default/' || %s",
                    str(random.randrange(2)),
                )
                ended = len(stage.effects.times("end"))
                until(lambda: len(stage.effects.times("end")) > ended + random.randrange(200) or over(stage))  # noqa: B023
            db.until_all_done(ids)
            stage.supervisor.ready()
        check_done(stage, ids)
        twice = sum(times > 1 for times in stage.effects.times("end").values())
        assert twice <= cuts * 100, (twice, cuts)

    def test_a_network_that_swallows_everything(self, tmp_path: Path, db: Database) -> None:
        with Proxy(db.url) as proxy, staged(tmp_path, db, workers=2, url=proxy.url, TEST_SIDE_TABLE=db.url) as stage:
            ids = stage.put(*[{"do": "nap", "s": 0.001}] * 2000)
            until(lambda: len(stage.effects.times("end")) > 100)
            proxy.blackhole()
            # The sessions at the other end of the hole keep their locks until somebody ends them.
            db.conn.execute(
                "select pg_terminate_backend(pid, 1000) from pg_stat_activity where datname = current_database()"
                " and application_name like 'stoker: worker%'"
            )
            until(lambda: stage.supervisor.health("/readyz")[0] == 503)
            proxy.heal()
            stage.supervisor.ready()
            db.until_all_done(ids)
        check_done(stage, ids)

    def test_a_database_that_is_restarted(self, tmp_path: Path) -> None:
        root = Path(tempfile.mkdtemp(prefix="stoker-restart-"))
        root.chmod(0o755)
        server = embedded.acquire(root, settings={"fsync": "off"})
        with closing(Database(server.url)) as db:
            migrate(db.conn)
            db.conn.execute(EFFECTS)
            with staged(tmp_path, db, workers=2) as stage:
                ids = stage.put(*[{"do": "nap", "s": 0.001}] * 2000)
                until(lambda: len(stage.effects.times("end")) > 100)
                db.close()
                server.close()
                assert embedded.wait_until_stopped(root)
                server = embedded.acquire(root, settings={"fsync": "off"})
                stage.db = Database(server.url)
                with closing(stage.db):
                    stage.db.until_all_done(ids)
                    check_done(stage, ids)
        server.close()
        assert embedded.wait_until_stopped(root)
        shutil.rmtree(root)


def over(stage: Stage) -> bool:
    return stage.db.one("select count(*) from stoker.jobs where state <> 'delayed'") == 0


def check_done(stage: Stage, ids: list[int]) -> None:
    """Every job is done; what failed was tried twice, and whatever was run again is not counted."""
    assert stage.column("select state from stoker.finished where id = any(%s)", ids) == {"done"}
    tried_twice = {one.job_id for one in stage.effects.all() if one.attempt == 2}
    for attempt, job in stage.column("select attempt, id from stoker.finished where id = any(%s)", ids):
        assert attempt == (2 if job in tried_twice else 1)
    assert stage.column("select max(crashes) from stoker.finished where id = any(%s)", ids) == {0}
    assert set(stage.effects.times("end", ids)) == set(ids)
