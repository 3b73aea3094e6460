"""Children that misbehave, and what the supervisor makes of it. Real processes."""

import itertools
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.supervisor.harness import Running, is_zombie
from tests.support import fastest, until

Start = Callable[..., Running]
SHORT_LEASE = {"lease": "2.5s", "renew_every": "500ms", "kill_after": "300ms"}


def test_a_worker_that_cannot_boot_is_tried_with_growing_pauses_and_then_parked(start: Start) -> None:
    running = start(queues=["good=1", "dies=1"], max_boot_failures=4, health="127.0.0.1:0")
    parked = running.wait_for("slot.parked")[0]
    assert "died 4 times" in parked["reason"]
    assert "the fake cannot boot" in parked["reason"]
    moments = [fact["at"] for fact in running.facts("boot", queue="dies")]
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert len(pauses) == 3
    assert all(pause >= least for pause, least in zip(pauses, (0.08, 0.16, 0.32), strict=True)), pauses
    until(lambda: (page := running.get("/readyz")[1]) and page["queues"]["good"]["ready_slots"] == 1)
    code, body = running.get("/readyz")
    assert code == 503
    assert any("is parked" in reason for reason in body["reasons"])
    seat = next(seat for seat in running.get("/status")[1]["seats"] if seat["queue"] == "dies")
    assert seat["state"] == "parked"


def test_when_nothing_can_run_it_gives_up(start: Start) -> None:
    running = start(queues=["dies=2"], max_boot_failures=2)
    assert running.exit() == 70
    assert "no worker can run" in running.events("supervisor.gives_up")[0]["reason"]


def test_a_refusal_by_configuration_is_78(start: Start) -> None:
    running = start(queues=["good=1", "refuses=1"])
    assert running.exit() == 78
    assert running.events("supervisor.gives_up")[0]["reason"] == "the fake is not configured"


def test_a_boot_that_hangs_is_ended_and_tried_again(start: Start) -> None:
    running = start(queues=["hangs=1"], boot_deadline="2s")
    killed = running.wait_for("child.killed", count=2)
    assert killed[0]["why"] == "did not boot in time"
    # The first may have ended before it did anything.
    until(lambda: len(running.facts("boot", queue="hangs")) >= 2)


def test_waiting_for_the_database_is_not_a_boot_failure(start: Start) -> None:
    running = start(queues=["waits=1"], boot_deadline="2s", health="127.0.0.1:0")
    pid = running.wait_for("child.waiting")[0]["pid"]
    with pytest.raises(AssertionError):
        until(lambda: running.events("child.killed", pid=pid) or running.events("child.exited", pid=pid), within=2.5)
    code, body = running.get("/readyz")
    assert code == 503
    assert "worker waits/0 waits for PostgreSQL: nobody answers" in body["reasons"]


def test_a_run_beyond_its_hard_deadline_ends_with_its_process(start: Start) -> None:
    running = start(queues=["late=1"]).ready()
    killed = running.wait_for("child.killed")[0]
    assert killed["how"] == "timeout"
    died = until(lambda: running.facts("ChildDied"))[0]["facts"]
    assert "how='timeout'" in died
    assert "run_no=1, verdict='blamed'" in died


def test_a_cancelled_run_that_goes_on_ends_with_its_process(start: Start) -> None:
    running = start(queues=["stubborn=1"], env={"FAKE_KEEPER": "cancels"}, **SHORT_LEASE).ready()
    os.kill(running.facts("boot", role="keeper")[0]["pid"], signal.SIGKILL)
    killed = running.wait_for("child.killed")[0]
    assert killed["how"] == "cancel"
    # Each keeper asks; which of them comes first to a worker that executes is no fact.
    assert len(running.facts("Cancel", pid=killed["pid"])) == 1
    assert "verdict='blamed'" in until(lambda: running.facts("ChildDied"))[0]["facts"]


def test_a_worker_without_a_sign_of_life_is_replaced(start: Start) -> None:
    running = start(queues=["busy=1"], health="127.0.0.1:0", **SHORT_LEASE).ready()
    victim = running.facts("boot", role="worker")[0]["pid"]
    os.kill(victim, signal.SIGSTOP)
    running.wait_for("readiness.lost")
    killed = running.wait_for("child.killed")[0]
    assert (killed["how"], killed["pid"]) == ("stuck", victim)
    until(lambda: running.get("/readyz")[0] == 200)


def test_a_supervisor_that_was_away_kills_nobody_for_it(start: Start) -> None:
    running = start(queues=["brief=1"], **SHORT_LEASE).ready()
    everybody = [running.pid, *(fact["pid"] for fact in running.facts("boot"))]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(AssertionError):
        until(lambda: False, within=4)
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)
    running.wait_for("loop.was_away")
    running.signal(signal.SIGTERM)
    assert running.exit() == 0
    assert not running.events("child.killed")


def test_deaths_are_told_to_the_next_keeper_when_the_first_did_not_settle_them(start: Start) -> None:
    running = start(queues=["busy=1"], env={"FAKE_KEEPER": "mute"}).ready()
    os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
    until(lambda: running.facts("ChildDied"))
    first = running.facts("boot", role="keeper")[0]
    os.kill(first["pid"], signal.SIGKILL)
    running.wait_for("keeper.ready", count=2)
    second = running.facts("boot", role="keeper")[1]
    (told,) = until(lambda: running.facts("ChildDied", claim_no=second["claim_no"]))
    assert told["facts"] == running.facts("ChildDied", claim_no=first["claim_no"])[0]["facts"]


def test_when_the_host_was_judged_dead_every_worker_is_replaced(start: Start) -> None:
    running = start(queues=["deaf=1", "good=1"], env={"FAKE_KEEPER": "loses"}, **SHORT_LEASE)
    running.wait_for("host.lost")
    until(lambda: len(running.facts("boot", queue="good")) == 2)
    until(lambda: len(running.facts("boot", queue="deaf")) == 2)
    first = running.facts("boot", queue="deaf")[0]["pid"]
    until(lambda: is_zombie(first))


def test_a_worker_that_has_done_enough_is_replaced_before_it_goes(start: Start) -> None:
    running = start(queues={"worn": {"processes": 2, "max_jobs": 40, "jitter": 0.0}}, health="127.0.0.1:0")
    retired = running.wait_for("child.retired", count=3)
    assert {entry["reason"] for entry in retired} == {"its successor is ready"}
    boots = [fact["at"] for fact in running.facts("boot", queue="worn")]
    recycled = running.facts("Recycle")
    assert boots[2] < recycled[0]["at"], "the successor came first"
    assert boots[3] > recycled[0]["at"], "one at a time"
    assert not running.events("readiness.lost")
    done = [line for line in running.get("/metrics")[1].splitlines() if line.startswith("stoker_jobs_total")]
    assert float(done[0].split()[-1]) >= 150
    assert 'job="noop",outcome="ok",queue="worn"' in done[0] or 'queue="worn",job="noop",outcome="ok"' in done[0]


def test_a_worker_that_was_told_to_stop_by_somebody_else_is_replaced(start: Start) -> None:
    running = start(queues=["good=1"]).ready()
    os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGTERM)
    running.wait_for("worker.ready", count=2)


def test_a_keeper_that_was_told_to_stop_by_somebody_else_is_replaced_or_kept_for_the_drain(start: Start) -> None:
    # It is replaced 0.2 s after it was told, and the drain has to come before that.
    for _ in range(5):
        running = start(queues=["brief=1"], env={"FAKE_KEEPER": "stops"}).ready()
        os.kill(running.facts("boot", role="keeper")[0]["pid"], signal.SIGTERM)
        running.wait_for("keeper.ready", count=2)
        os.kill(running.facts("boot", role="keeper")[1]["pid"], signal.SIGTERM)
        running.wait_for("child.stops", count=2)
        running.signal(signal.SIGTERM)
        assert running.exit() == 0
        assert running.facts("Close")[-1]["role"] == "keeper"
        if len(running.facts("boot", role="keeper")) == 2:
            return
    pytest.fail("it was replaced during the drain")


def test_a_keeper_that_dies_is_back_at_once(start: Start) -> None:
    running = start(queues=["good=1"], health="127.0.0.1:0").ready()
    for count in (2, 3):
        os.kill(running.facts("boot", role="keeper")[-1]["pid"], signal.SIGKILL)
        running.wait_for("keeper.ready", count=count)
    until(lambda: running.get("/readyz")[0] == 200)


def test_children_do_not_find_what_is_meant_for_the_supervisor(start: Start) -> None:
    running = start(queues=["good=1"], env={"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "30000000"}).ready()
    server = running.events("app.imported")[0]["pid"]
    names = {entry.partition(b"=")[0] for entry in Path(f"/proc/{server}/environ").read_bytes().split(b"\0")}
    assert not names & {b"NOTIFY_SOCKET", b"WATCHDOG_USEC", b"STOKER_RUN_OVERRIDES"}


def test_a_fork_server_that_does_not_answer_is_replaced(start: Start) -> None:
    running = start(queues=["good=1"], boot_deadline="2s").ready()
    os.kill(running.events("app.imported")[0]["pid"], signal.SIGSTOP)
    os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
    running.wait_for("app.imported", count=2)
    running.wait_for("worker.ready", count=2)


def test_a_fork_that_fails_is_tried_again_and_harms_nobody(start: Start) -> None:
    running = start(queues=["good=2"], max_boot_failures=2).ready()
    server = running.events("app.imported")[0]["pid"]
    limits = resource.prlimit(server, resource.RLIMIT_NOFILE)
    # It keeps what it has and gets nothing more; so many it polls: its channel and three children.
    resource.prlimit(server, resource.RLIMIT_NOFILE, (4, limits[1]))
    first, second = running.facts("boot", role="worker")
    os.kill(first["pid"], signal.SIGKILL)
    running.wait_for("child.not_forked", count=3)
    resource.prlimit(server, resource.RLIMIT_NOFILE, limits)
    running.wait_for("worker.ready", count=3)
    assert second["pid"] in running.alive()
    assert not running.events("slot.parked"), "it is not the seat's fault"
    assert all(event["pid"] for event in running.events("child.exited"))


def test_an_asked_for_child_does_not_hold_up_the_drain(start: Start) -> None:
    def drain() -> float:
        running = start(queues=["good=1"], grace="1s").ready()
        os.kill(running.events("app.imported")[0]["pid"], signal.SIGSTOP)
        os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
        running.wait_for("child.exited")
        running.signal(signal.SIGTERM)
        assert running.exit() in (0, 75)
        return float(running.events("drain.finished")[0]["took_s"])

    fastest(drain, below=1 + 2)
