"""Claims of dead children: who is blamed, what goes back, and what comes late."""

from collections.abc import Callable

from tests.keeper.rig import Boot, Host, Queue, death
from worker_proc.messages import Lane, Ready, Reaped


def reap(boot: Boot, message: object) -> None:
    boot.keeper.on_message(message)  # type: ignore[arg-type]
    boot.turn_until(lambda: boot.heard(Reaped))


def test_the_executing_job_is_blamed_and_the_reserved_ones_go_back(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    first, second, third = queue.add(3)
    runs = queue.claim(host.id, 7)
    reap(boot, death(7, "crash", Lane(runs[0].id, runs[0].run_no, "blamed")))
    assert boot.heard(Reaped) == [Reaped(7)]
    views = [queue.driver.job(job_id) for job_id in (first, second, third)]
    assert [(v.state, v.attempt, v.crashes) for v in views if v] == [("ready", 1, 1), ("ready", 0, 0), ("ready", 0, 0)]
    assert views[0] is not None
    error = views[0].error
    assert (error["type"], error["code"], error["signal_name"]) == ("WorkerCrashed", "STOKER_WORKER_CRASHED", "SIGKILL")
    assert (error["signal"], error["pid"], error["host"], error["peak_rss_bytes"]) == (9, 4711, "box", 50 << 20)
    assert [run.id for run in queue.claim(host.id, 8)] == [second, third, first], "reserved ones kept their place"


def test_a_claim_that_commits_after_its_client_died_is_swept(make_host: Callable[..., Host], queue: Queue) -> None:
    host = make_host(renew_every=0.05)
    boot = host.boot()
    boot.until_said(Ready)
    reap(boot, death(7, "crash"))
    (late,) = queue.add()
    queue.claim(host.id, 7)
    boot.turn_until(lambda: queue.state(late) == "ready")
    view = queue.driver.job(late)
    assert view and (view.attempt, view.crashes, view.error) == (0, 0, None)
