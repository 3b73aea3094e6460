"""The ladder: told, interrupted, asked for its stacks, killed; whatever the body does, and nobody else notices."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.console.job_sheet import job_sheet
from stoker.drivers.base import JobView
from tests.processes import ROOT, Supervisor, running
from tests.side_table import Database
from tests.support import until

ENV = {"STOKER_APP": "tests.ladder_jobs", "STOKER_KILL_AFTER": "300ms"}
DEAF = ("swallows_for_ever", "waits_in_c", "masks_its_signals", "keeps_the_gil", "computes")


def stacks(view: JobView) -> list[str]:
    return [attempt["error"]["stack"] for attempt in view.attempts if "stack" in attempt["error"]]


def until_killed_in(db: Database, job: int, function: str) -> JobView:
    """Until an attempt tells where it was killed: a process that gets no processor is killed without."""

    def told() -> JobView | None:
        view = db.job(job)
        return view if any(function in stack for stack in stacks(view)) else None

    view = until(told)
    assert view
    return view


def console(db: Database, *words: str) -> str:
    """What the command line says."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}
    env |= {"PYTHONPATH": str(ROOT), "STOKER_DATABASE_URL": db.url}
    done = subprocess.run(
        [sys.executable, "-m", "stoker", *words], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(db: Database, job: int) -> tuple[str, dict[str, Any]]:
    return console(db, "jobs", "show", str(job)), json.loads(console(db, "jobs", "show", str(job), "--json"))


def children_of_jobs(supervisor: Supervisor) -> int:
    return len(supervisor.processes("sleep 345"))


def test_whoever_ignores_its_timeout_is_killed_and_tells_where(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {**ENV, "STOKER_QUEUES": "default=3"}) as supervisor:
        (neighbour,) = db.enqueue("held")
        db.until_effect(neighbour)
        jobs = {doing: db.enqueue("limited", json.dumps({"do": doing, "child": "345"}))[0] for doing in DEAF}
        for doing, job in jobs.items():
            view = until_killed_in(db, job, f"in {doing}")
            for attempt in view.attempts:
                assert attempt["error"]["code"] == "STOKER_JOB_TIMEOUT"
                assert (attempt["error"]["how"], attempt["outcome"]) == ("timeout", "retried")
            db.driver.cancel(job, "seen enough")
        for job in jobs.values():
            db.until_state(job, "cancelled")
        text, whole = shown(db, job)
        assert f"in {doing}" in text
        assert any(f"in {doing}" in attempt["error"].get("stack", "") for attempt in whole["attempts"])
        until(lambda: children_of_jobs(supervisor) == 0)
        db.release(neighbour)
        assert db.until_state(neighbour, "done").attempt == 1
        assert db.effects("start")[neighbour] == 1


@pytest.mark.parametrize("queues", ["default=1", "default=1x8"], ids=["one lane", "many lanes"])
def test_the_last_attempt_ends_dead(tmp_path: Path, db: Database, queues: str) -> None:
    with running(tmp_path, db.url, {**ENV, "STOKER_QUEUES": queues}) as supervisor:
        (job,) = db.enqueue("limited", '{"do": "swallows_for_ever"}', max_attempts=2)
        view = db.until_state(job, "dead")
        assert (view.error["code"], view.attempt, view.crashes) == ("STOKER_JOB_TIMEOUT", 2, 0)
        assert "stack" not in view.error
        assert {kill["how"] for kill in supervisor.events("child.killed")} == {"timeout"}
        (again,) = db.enqueue("limited", '{"do": "swallows_for_ever"}', max_attempts=20)
        until_killed_in(db, again, "in swallows_for_ever")


def test_a_cancel_that_was_ignored_tells_where(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {**ENV, "STOKER_QUEUES": "default=1"}):

        def told() -> bool:
            (job,) = db.enqueue("unlimited", '{"do": "keeps_the_gil"}')
            db.until_effect(job)
            assert db.driver.cancel(job, "no longer wanted") == "requested"
            view = db.until_state(job, "cancelled")
            assert (view.error["type"], view.error["message"]) == ("Cancelled", "no longer wanted")
            (attempt,) = view.attempts
            assert (attempt["outcome"], attempt["error"]["how"]) == ("cancelled", "cancel")
            return any("in keeps_the_gil" in stack for stack in stacks(view))

        until(told)


@pytest.mark.parametrize(("name", "number"), [("reads_nowhere", signal.SIGSEGV), ("aborts", signal.SIGABRT)])
def test_a_fault_leaves_its_stack(tmp_path: Path, db: Database, name: str, number: signal.Signals) -> None:
    with running(tmp_path, db.url, {**ENV, "STOKER_QUEUES": "default=1"}):
        (job,) = db.enqueue(name)
        view = db.until_state(job, "dead")
        assert (view.error["code"], view.error["signal"], view.crashes) == ("STOKER_WORKER_CRASHED", number, 3)
        # Written before the process ends, so there is nothing to wait for.
        assert [f"in {name}" in stack for stack in stacks(view)] == [True, True, True]
        assert all(stack.startswith("Fatal Python error") for stack in stacks(view))
        assert f"in {name}" in job_sheet(view)


def test_a_stopped_worker_is_killed_without_a_word(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, {**ENV, "STOKER_QUEUES": "default=1"}):
        (job,) = db.enqueue("limited", '{"do": "swallows_for_ever"}', max_attempts=1)
        db.until_effect(job)
        # It may be too late for this one; then it was killed in another way.
        if db.state(job) == "running":
            os.kill(db.one("select pid from effects where job_id = %s", job), signal.SIGSTOP)
        assert db.until_state(job, "dead").error["code"] == "STOKER_JOB_TIMEOUT"
