"""Claims of dead children: who is blamed, what goes back, and what comes late."""

from collections.abc import Callable

import psycopg
import pytest

from tests.keeper.rig import Boot, Host, Queue, death
from worker_proc.messages import ChildDied, Lane, Ready, Reaped
from worker_proc.reaping import STRAY_S, Strays


def reap(boot: Boot, message: ChildDied) -> None:
    """Report a death and turn until it is settled."""
    before = len(boot.heard(Reaped))
    boot.keeper.on_message(message)
    boot.turn_until(lambda: len(boot.heard(Reaped)) > before)


@pytest.fixture
def boot(make_host: Callable[..., Host]) -> Boot:
    boot = make_host(queues=("default", "default"), renew_every=0.05).boot()
    boot.until_said(Ready)
    return boot


def test_the_executing_job_is_blamed_and_the_reserved_ones_go_back(boot: Boot, queue: Queue) -> None:
    first, second, third = queue.add(3)
    runs = queue.claim(boot.host.id, 7)
    reap(boot, death(7, "crash", Lane(runs[0].id, runs[0].run_no, "blamed", peak_rss_bytes=50 << 20)))
    assert boot.heard(Reaped) == [Reaped(7)]
    views = [queue.view(job_id) for job_id in (first, second, third)]
    assert [(v.state, v.attempt, v.crashes) for v in views] == [("ready", 1, 1), ("ready", 0, 0), ("ready", 0, 0)]
    error = views[0].error
    assert (error["type"], error["code"], error["signal_name"]) == ("WorkerCrashed", "STOKER_WORKER_CRASHED", "SIGKILL")
    assert (error["signal"], error["pid"], error["host"], error["peak_rss_bytes"]) == (9, 4711, "box", 50 << 20)
    (attempt,) = views[0].attempts
    assert (attempt["outcome"], attempt["attempt"], attempt["error"]) == ("retried", 1, error)
    assert [run.id for run in queue.claim(boot.host.id, 8)] == [second, third, first], "reserved ones kept their place"


def test_three_crashes_are_the_end_and_the_attempts_say_which(boot: Boot, queue: Queue) -> None:
    (job_id,) = queue.add()
    for claim_no in (7, 8, 9):
        queue.conn.execute("update stoker.jobs set state = 'ready', run_at = null where state = 'delayed'")
        (run,) = queue.claim(boot.host.id, claim_no)
        reap(boot, death(claim_no, "crash", Lane(run.id, run.run_no, "blamed"), signal=11))
    view = queue.view(job_id)
    assert (view.state, view.crashes, view.attempt) == ("dead", 3, 3)
    assert view.error["code"] == "STOKER_WORKER_CRASHED" and view.error["signal"] == 11
    assert [one["outcome"] for one in view.attempts] == ["retried", "retried", "dead_lettered"]


def test_a_crash_in_the_only_attempt_is_dead_and_frees_its_key(boot: Boot, queue: Queue) -> None:
    (job_id,) = queue.add(max_attempts=1, idempotency_key="k")
    (run,) = queue.claim(boot.host.id, 7)
    reap(boot, death(7, "crash", Lane(run.id, run.run_no, "blamed")))
    assert queue.state(job_id) == "dead"
    assert queue.add(idempotency_key="k") != [job_id]


def test_a_run_killed_by_a_drain_is_ready_at_once_and_not_counted(boot: Boot, queue: Queue) -> None:
    (job_id,) = queue.add()
    (run,) = queue.claim(boot.host.id, 7)
    reap(boot, death(7, "drain", Lane(run.id, run.run_no, "innocent")))
    view = queue.view(job_id)
    assert (view.state, view.attempt, view.crashes) == ("ready", 0, 0)
    assert view.attempts[0]["outcome"] == "interrupted"


def test_a_cancelled_run_and_reserved_jobs_with_a_request_end_as_cancelled(boot: Boot, queue: Queue) -> None:
    first, second, third = queue.add(3)
    runs = queue.claim(boot.host.id, 7)
    for job_id in (first, second):
        queue.driver.cancel(job_id, "no longer wanted")
    reap(boot, death(7, "cancel", Lane(runs[0].id, runs[0].run_no, "blamed")))
    assert [queue.state(job_id) for job_id in (first, second, third)] == ["cancelled", "cancelled", "ready"]
    assert queue.view(first).error["message"] == "no longer wanted"
    assert queue.one("select count(*) from stoker.cancels") == 0


def test_the_same_death_again_changes_nothing(boot: Boot, queue: Queue) -> None:
    (job_id,) = queue.add()
    (run,) = queue.claim(boot.host.id, 7)
    message = death(7, "crash", Lane(run.id, run.run_no, "blamed"))
    reap(boot, message)
    (again,) = queue.claim(boot.host.id, 8)
    reap(boot, message)
    assert (again.run_no, queue.state(job_id)) == (run.run_no + 1, "running")
    assert queue.view(job_id).crashes == 1


def test_what_the_child_had_settled_before_it_died_stays_settled(boot: Boot, queue: Queue) -> None:
    (job_id,) = queue.add()
    (run,) = queue.claim(boot.host.id, 7)
    queue.settle(run, "completed")
    reap(boot, death(7, "crash", Lane(run.id, run.run_no, "blamed")))
    assert queue.state(job_id) == "done"


def test_deaths_wait_for_the_database_and_none_is_lost(boot: Boot, queue: Queue) -> None:
    jobs = queue.add(2)
    for claim_no in (7, 8):
        queue.claim(boot.host.id, claim_no, 1)
    queue.kill_backend(boot.backend_pid())
    for claim_no in (7, 8):
        boot.keeper.on_message(death(claim_no, "crash"))
    boot.turn_until(lambda: {one.claim_no for one in boot.heard(Reaped)} == {7, 8})
    assert [queue.state(job_id) for job_id in jobs] == ["ready", "ready"]


def test_a_death_that_cannot_be_settled_does_not_hold_up_the_next(
    boot: Boot, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = boot.keeper.reaping._settle

    def refuse_the_first(message: ChildDied) -> None:
        if message.claim_no == 7:
            raise psycopg.DataError("poison")
        settle(message)

    monkeypatch.setattr(boot.keeper.reaping, "_settle", refuse_the_first)
    boot.keeper.on_message(death(7, "crash"))
    boot.keeper.on_message(death(8, "crash"))
    boot.turn_until(lambda: boot.heard(Reaped) == [Reaped(8)])
    assert boot.keeper.reaping.waiting == {7}


def test_a_claim_that_commits_after_its_client_died_is_swept(boot: Boot, queue: Queue) -> None:
    reap(boot, death(7, "crash"))
    (late,) = queue.add()
    queue.claim(boot.host.id, 7)
    boot.turn_until(lambda: queue.state(late) == "ready")
    view = queue.view(late)
    assert (view.attempt, view.crashes, view.error) == (0, 0, None)


def test_rows_of_living_children_are_left_alone(boot: Boot, queue: Queue) -> None:
    claim_no = boot.host.worker_ready(0)
    held = queue.add(2)
    queue.claim(boot.host.id, claim_no, 1)
    queue.claim(boot.host.id, 99, 1)
    reap(boot, death(7, "crash"))
    boot.turn_for(0.3)
    assert [queue.state(job_id) for job_id in held] == ["running", "running"]


class TestStrays:
    """Deaths that an earlier keeper settled and this one was never told of."""

    def test_an_old_claim_number_on_no_slot_is_dead_after_a_while(self) -> None:
        strays = Strays(before=10)
        assert strays.find({3, 4}, {4}, now=0.0) == set()
        assert strays.find({3, 4}, {4}, now=STRAY_S - 0.1) == set()
        assert strays.find({3, 4}, {4}, now=STRAY_S) == {3}

    def test_a_number_that_was_back_on_a_slot_starts_anew(self) -> None:
        strays = Strays(before=10)
        strays.find({3}, set(), now=0.0)
        strays.find({3}, {3}, now=1.0)
        assert strays.find({3}, set(), now=STRAY_S) == set()

    @pytest.mark.parametrize("claim_no", [10, 11])
    def test_younger_children_are_not_judged(self, claim_no: int) -> None:
        strays = Strays(before=10)
        strays.find({claim_no}, set(), now=0.0)
        assert strays.find({claim_no}, set(), now=1000.0) == set()


def test_a_big_death_is_settled_page_by_page(boot: Boot, queue: Queue) -> None:
    queue.fill(1200)
    queue.claim(boot.host.id, 7, 1200)
    reap(boot, death(7, "crash"))
    assert queue.states() == {"ready": 1200}
