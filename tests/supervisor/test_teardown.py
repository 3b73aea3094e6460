"""Going down, with real processes: in time, with the right exit code, and nobody left."""

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.supervisor.harness import Running, is_zombie
from tests.support import SOON_S, fastest, scaled, until

Start = Callable[..., Running]
TERM, INT, QUIT, HUP, KILL = signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGKILL


def order(running: Running, *what: str) -> list[tuple[str, str]]:
    return [(fact["what"], fact["role"]) for fact in running.facts() if fact["what"] in what]


def took(running: Running) -> float:
    """Seconds from the signal to the end of the last child; what Python needs to exit depends on the machine."""
    return float(running.events("drain.finished")[0]["took_s"])


@pytest.mark.parametrize("number", [TERM, INT, QUIT])
def test_an_idle_supervisor_ends_at_once(start: Start, number: signal.Signals) -> None:
    lives: list[Running] = []

    def live() -> float:
        lives.append(start(queues=["good=2", "other=1"]).ready())
        lives[-1].signal(number)
        assert lives[-1].exit() == 0
        return took(lives[-1])

    fastest(live, below=1)
    running = lives[-1]
    told = order(running, "StopAccepting", "Close")
    assert told[-1] == ("Close", "keeper"), "the keeper closes last"
    assert told.count(("Close", "worker")) == 3
    assert {fact["facts"] for fact in running.facts("StopAccepting")} == {
        f"StopAccepting(reason='{'stop' if number == QUIT else number.name}', signal={number != QUIT})"
    }


def test_everybody_is_told_at_the_same_moment(start: Start) -> None:
    running = start(queues=["brief=2", "good=2"], grace="60s").ready()
    began = running.signal(TERM)
    assert running.exit() == 0
    assert len(running.facts("StopAccepting")) == 5
    # Whether the keeper has heard of it too is nothing that workers wait for.
    heard = [fact["at"] for fact in running.facts("StopAccepting", role="worker")]
    closed = [fact["at"] for fact in running.facts("Close", role="worker")]
    assert max(heard) < min(closed), "nobody is told after somebody had time to end"
    briefs = [fact["at"] for fact in running.facts("StopAccepting", queue="brief")]
    assert min(closed) - max(briefs) >= 0.5, "phase 2 waits for the bodies"
    assert max(closed) - began < 30, "and not for the deadline"


def test_whoever_does_not_leave_is_killed_at_the_deadline_and_reported(start: Start) -> None:
    def drain() -> float:
        running = start(queues=["stubborn=1", "good=1"], grace="1s").ready()
        running.signal(TERM)
        assert running.exit() == 75
        died = [fact["facts"] for fact in running.facts("ChildDied")]
        assert all("how='drain'" in facts for facts in died)
        # The other one has a moment to leave.
        innocent = ["verdict='innocent'" in facts for facts in died].count(True)
        assert innocent <= 1
        assert took(running) >= 1
        # A keeper that gets no processor is killed before it hears of it.
        told = order(running, "ChildDied", "Close")[-2:] == [("ChildDied", "keeper"), ("Close", "keeper")]
        return took(running) if told and innocent else math.inf

    fastest(drain, below=1 + 2)


def test_a_deaf_keeper_is_killed_too(start: Start) -> None:
    def drain() -> float:
        running = start(grace="1s", env={"FAKE_KEEPER": "deaf"}).ready()
        running.signal(TERM)
        assert running.exit() == 75
        return took(running)

    fastest(drain, below=1 + 2)


def test_claims_that_nobody_takes_back_cost_the_clean_exit(start: Start) -> None:
    def drain() -> float:
        running = start(queues=["stubborn=1"], grace="1s", env={"FAKE_KEEPER": "mute"}).ready()
        running.signal(TERM)
        assert running.exit() == 75
        assert "could not be handed back" in running.log()
        return took(running)

    fastest(drain, below=1 + 2)


def test_a_manual_stop_waits_and_a_termination_joins_it(start: Start) -> None:
    def is_told_of_both() -> bool:
        running = start(queues=["stubborn=1"], grace="1s").ready()
        running.signal(QUIT)
        running.wait_for("drain.started", reason="stop")
        with pytest.raises(AssertionError):
            until(lambda: running.process.poll() is not None, within=1.5)
        assert "signal=False" in until(lambda: running.facts("StopAccepting", role="worker"))[0]["facts"]
        running.signal(TERM)
        assert running.exit() == 75, "without a deadline it would wait for ever"
        assert len(running.events("drain.started")) == 1
        told = [fact["facts"] for fact in running.facts("StopAccepting", role="worker")]
        return "signal=True" in told[-1]

    # A worker that gets no processor is killed before it hears the second.
    until(is_told_of_both)


def test_twenty_terminations_within_a_second_are_one(start: Start) -> None:

    def are_one() -> bool:
        running = start(queues=["brief=2"]).ready()
        began = time.monotonic()
        for _ in range(20):
            # Whatever comes a second later is another one.
            if running.process.poll() is None and time.monotonic() - began < 0.5:
                running.signal(TERM)
            time.sleep(0.01)
        assert running.exit() == 0
        return not running.events("drain.tightened") and len(running.facts("StopAccepting")) == 3

    # When it hears of them is up to the machine.
    until(are_one)


def test_a_third_termination_kills(start: Start) -> None:
    def seconds_until_killed() -> float:
        running = start(queues=["stubborn=1"], grace="60s").ready()
        running.signal(TERM)
        running.wait_for("drain.started")
        # Sooner it would be taken for the same one.
        time.sleep(1.05)
        running.signal(TERM)
        assert 4 < running.wait_for("drain.tightened")[0]["deadline_s"] <= 5
        time.sleep(1.05)
        asked = running.signal(TERM)
        assert running.wait_for("child.killed")[0]["how"] == "drain"
        took = time.monotonic() - asked
        assert running.exit() == 75
        return took

    # Sooner than the second would have.
    fastest(seconds_until_killed, below=3)


def test_nobody_is_born_once_it_stops(start: Start) -> None:
    running = start(queues=["stubborn=2"], grace="5s").ready()
    running.signal(TERM)
    running.wait_for("drain.started")
    os.kill(running.facts("boot", role="worker")[0]["pid"], KILL)
    assert running.exit() == 75
    assert len(running.facts("boot")) == 3
    # Of the other one, killed at the deadline, a keeper without a processor does not hear in time.
    assert "how='crash'" in running.facts("ChildDied")[0]["facts"]


def test_a_signal_for_the_whole_group(start: Start) -> None:
    running = start(queues=["good=2"]).ready()
    os.killpg(running.pid, TERM)
    assert running.exit() == 0


def test_workers_that_are_stopped_do_not_hold_it_up(start: Start) -> None:
    def drain() -> float:
        running = start(queues=["good=2"], grace="1s").ready()
        for fact in running.facts("boot", role="worker"):
            os.kill(fact["pid"], signal.SIGSTOP)
        running.signal(TERM)
        assert running.exit() == 75
        return took(running)

    fastest(drain, below=1 + 2)


def test_a_fork_server_that_is_stopped_does_not_hold_it_up(start: Start) -> None:
    running = start(grace="60s").ready()
    os.kill(running.events("app.imported")[0]["pid"], signal.SIGSTOP)
    running.signal(TERM)
    assert running.exit() == 0
    assert took(running) < 20


def test_children_that_boot_slowly_do_not_hold_it_up(start: Start) -> None:
    running = start(queues=["hangs=3"], grace="60s")
    until(lambda: len(running.facts("boot", queue="hangs")) == 3)
    running.signal(TERM)
    assert running.exit() == 0
    assert took(running) < 20


def test_terminated_at_any_moment_of_its_start_it_ends_in_time(start: Start) -> None:
    for trial in range(scaled(6, 200)):
        running = start(queues=["good=2", "good-2=1"], env={"FAKE_IMPORT_S": "0.05"})
        time.sleep(trial * 3 % 10 / 14)
        running.signal(TERM)
        # Before its handlers are there the signal's own action applies, and there is nothing to drain.
        assert running.exit(within=SOON_S) in (0, -TERM)


def test_the_lock_file_goes_and_other_locks_stay(start: Start, tmp_path: Path) -> None:
    running = start()
    directory = running.directory / "run"
    running.ready()
    assert len(list(directory.glob("host-*.lock"))) == 1
    running.signal(TERM)
    assert running.exit() == 0
    assert not list(directory.glob("host-*.lock"))


def test_after_all_children_died_it_still_ends(start: Start) -> None:
    running = start(queues=["good=3"], grace="60s").ready()
    victims = [fact["pid"] for fact in running.facts("boot")]
    for pid in victims:
        os.kill(pid, KILL)
    running.signal(TERM)
    code = running.exit()
    assert code in (0, 75), "75 when the keeper was not there to settle the deaths"
    assert took(running) < 20
    assert all(is_zombie(pid) for pid in victims)
