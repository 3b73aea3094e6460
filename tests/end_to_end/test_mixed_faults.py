"""Everything at once: jobs that raise, kill their process or run long, workers killed from outside, two supervisors."""

import random
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.effects import Effect
from tests.end_to_end.short_stage import Stage, staged
from tests.processes import Supervisor, running
from tests.side_table import Database
from tests.support import HANGS_S, scaled, until

WORKERS = 4
COUNT = scaled(3_000, 100_000)
RAISES, KILLS, SLEEPS = 100, scaled(750, 1_000), scaled(500, 1_000)


def doing(number: int) -> dict[str, Any]:
    """1 % raise, 0.1 % kill their process (each time, or in their first attempt only), 0.1 % sleep 50 ms."""
    if number % KILLS == KILLS // 2:
        return {"do": "die", "attempts": 1 if number // KILLS % 2 else 100}
    if number % SLEEPS == SLEEPS // 3:
        return {"do": "nap", "s": 0.05}
    return {"do": "fail"} if number % RAISES == 7 else {"do": "nothing"}


def test_every_job_ends_as_it_should_and_nobody_is_blamed_for_another(tmp_path: Path, db: Database) -> None:
    payloads: dict[int, dict[str, Any]] = {}
    killed: dict[int, int] = {}
    with staged(tmp_path, db, workers=2) as stage, running(tmp_path, db.url, twin_of(stage)) as twin:
        # The workers may have done everything before this process gets to look.
        while not killed:
            batch = [doing(number) for number in range(COUNT)]
            payloads |= zip(stage.put(*batch), batch, strict=True)
            killed = kill_workers([stage.supervisor, twin], stage)
            stage.until_none_is_left()
        # A death may be noted when its job has ended elsewhere: then a keeper only takes the note away.
        until(lambda: db.one("select count(*) from stoker.suspects") == 0)
        for supervisor in (stage.supervisor, twin):
            supervisor.ready()
            assert supervisor.stop()[0] == 0
    Account(stage, killed).check(payloads)


def twin_of(stage: Stage) -> dict[str, str]:
    """The settings of another host."""
    names = ("STOKER_APP", "STOKER_QUEUES", "TEST_EFFECTS")
    return {name: stage.supervisor.env[name] for name in names} | {"STOKER_RUNTIME_DIR": f"{stage.effects.path}.twin"}


def kill_workers(supervisors: list[Supervisor], stage: Stage) -> dict[int, int]:
    """Kill a worker at random now and then while there is work: pid and when (CLOCK_MONOTONIC ns)."""
    killed: dict[int, int] = {}
    ended_by = time.monotonic() + HANGS_S * scaled(1, 20)
    while stage.db.one("select count(*) from stoker.jobs where state <> 'delayed'"):
        assert time.monotonic() < ended_by
        time.sleep(random.uniform(0.0, scaled(2, 8) / 10))
        supervisor = random.choice(supervisors)
        # A worker that never gets ready is parked in the end.
        ready = {one["pid"] for one in supervisor.events("worker.ready")}
        with suppress(psutil.NoSuchProcess, IndexError):
            victim = random.choice([one for one in supervisor.processes("stoker: worker") if one.pid in ready])
            victim.kill()
            killed[victim.pid] = time.monotonic_ns()
    return killed


class Account:
    """What the queue says of each job, beside what the jobs themselves wrote down."""

    def __init__(self, stage: Stage, killed: dict[int, int]) -> None:
        self.db = stage.db
        self.killed = killed
        self.starts: dict[int, list[Effect]] = defaultdict(list)
        self.last_start: dict[int, Effect] = {}
        self.started: set[tuple[int, int]] = set()
        for one in stage.effects.all():
            if one.what == "start":
                self.starts[one.job_id].append(one)
                self.last_start[one.pid] = one
                self.started.add((one.pid, one.job_id))
        self.ends = stage.effects.times("end")

    def check(self, payloads: dict[int, dict[str, Any]]) -> None:
        failures = defaultdict(list)
        for job, attempt, error in self.db.conn.execute(
            "select job_id, attempt, error from stoker.attempts order by job_id, run_no"
        ):
            failures[job].append((attempt, error))
        ended = "select id, state, attempt, crashes from stoker.finished where id = any(%s)"
        rows = {row[0]: row[1:] for row in self.db.conn.execute(ended, (list(payloads),))}
        assert rows.keys() == payloads.keys(), "every job ends, and none is lost"
        assert self.db.one("select count(*) from stoker.finished where id = any(%s)", list(payloads)) == len(payloads)
        for job, (state, attempt, crashes) in rows.items():
            facts = (job, payloads[job], state, attempt, crashes, failures[job], self.starts[job])
            # The attempts that did not succeed are all there, and there is one more for success.
            assert [number for number, _ in failures[job]] == list(range(1, attempt + (state == "dead"))), facts
            errors = [error for _, error in failures[job]]
            crashed = [error for error in errors if error.get("code") == "STOKER_WORKER_CRASHED"]
            assert len(crashed) == crashes, facts
            assert all(self._was_running(job, error["pid"]) for error in crashed), facts
            if payloads[job]["do"] == "die":
                self._check_killer(payloads[job], state, {error["pid"] for error in crashed}, facts)
            else:
                raised = [error for error in errors if error["type"] == "ValueError"]
                assert len(raised) + crashes == len(errors), facts
                assert len(raised) <= (payloads[job]["do"] == "fail"), facts
                assert {error["pid"] for error in crashed} <= self.killed.keys(), facts
                assert state == "done" or crashes == 3, facts
            assert (self.ends[job] >= 1) or state == "dead", facts

    def _was_running(self, job: int, pid: int) -> bool:
        """The last job that started there, or the one that was about to, when somebody killed the process."""
        last = self.last_start.get(pid)
        return (last is not None and last.job_id == job) or (pid in self.killed and (pid, job) not in self.started)

    def _check_killer(self, payload: dict[str, Any], state: str, blamed: set[int], facts: object) -> None:
        """Each process it ran in died of it, but for the one where it returned; after its end nobody counts."""
        unaccounted = {pid for pid, job in self.started if job == facts[0]} - blamed  # type: ignore[index]
        assert len(unaccounted) == 1 if state == "done" else len(unaccounted) < WORKERS, facts
        assert state == "dead" or payload["attempts"] == 1, facts
