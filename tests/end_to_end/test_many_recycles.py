"""Thousands of workers, one after the other: the supervisor is as it was, and its counters only grow."""

import statistics
import time
from pathlib import Path

import psutil

from tests.figures import Figures
from tests.processes import Supervisor, running
from tests.side_table import Database
from tests.support import FULL_SCALE, HANGS_S, scaled, until

QUEUES = tuple(f"q{number}" for number in range(scaled(2, 8)))
TOML = "".join(f"[queues.{queue}]\nprocesses = 1\nmax_jobs = 1\njitter = 0.0\n" for queue in QUEUES)
RECYCLES = scaled(6, 2_000)
# What an allocator may keep, far below anything that would grow with every worker.
SLACK_BYTES = 4 << 20
SLACK_S = 0.005
# The supervisor looks twice a second who has done enough.
REST_S = 1.2


class State:
    """What must not grow."""

    def __init__(self, supervisor: Supervisor, counted: "Counted") -> None:
        pids = [supervisor.pid, supervisor.worker_pid("stoker: fork server")]
        processes = [psutil.Process(pid) for pid in pids]
        self.memory = [process.memory_full_info().uss for process in processes]
        self.descriptors = [process.num_fds() for process in processes]
        self.scrape_s = statistics.median(counted.scrape(supervisor) for _ in range(20))

    def __str__(self) -> str:
        memory = " and ".join(f"{uss / 1024:.0f} KiB" for uss in self.memory)
        return f"{memory}, descriptors {self.descriptors}, scrape {self.scrape_s * 1000:.1f} ms"


class Counted:
    """Every counter that was ever seen at /metrics."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def scrape(self, supervisor: Supervisor) -> float:
        """Look at them; seconds that took."""
        began = time.perf_counter()
        lines = supervisor.health("/metrics")[1].splitlines()
        took = time.perf_counter() - began
        totals = (line.rsplit(" ", 1) for line in lines if line.partition("{")[0].endswith("_total"))
        now = {name: float(value) for name, value in totals}
        assert all(now[name] >= value for name, value in self.seen.items()), (now, self.seen)
        self.seen = now
        return took


def recycled(supervisor: Supervisor, counted: Counted) -> int:
    counted.scrape(supervisor)
    retired = (value for name, value in counted.seen.items() if "restarts" in name and 'reason="retired"' in name)
    return int(sum(retired))


def recycle(supervisor: Supervisor, counted: Counted, db: Database, times: int) -> None:
    """Until so many have gone, and every seat has one worker that has nothing to do."""

    def enough() -> bool:
        if db.one("select count(*) from stoker.jobs") < 100:
            for queue in QUEUES:
                db.enqueue("noop", queue=queue, times=50)
        return recycled(supervisor, counted) >= times

    until(enough, within=HANGS_S + times)
    until(lambda: db.one("select count(*) from stoker.jobs") == 0)
    seen: dict[frozenset[int], float] = {}

    def at_rest() -> bool:
        workers = frozenset(slot["pid"] for slot in supervisor.status()["slots"] if slot["queue"])
        return len(workers) == len(QUEUES) and time.monotonic() - seen.setdefault(workers, time.monotonic()) > REST_S

    until(at_rest)


def test_nothing_grows(tmp_path: Path, db: Database, figures: Figures) -> None:
    (tmp_path / "stoker.toml").write_text(TOML)
    with running(tmp_path, db.url, {"STOKER_QUEUES": ",".join(QUEUES)}) as supervisor:
        counted = Counted()

        # Caches fill, the first of everything is made.
        recycle(supervisor, counted, db, max(2, RECYCLES // 10))
        before, so_far = State(supervisor, counted), recycled(supervisor, counted)
        recycle(supervisor, counted, db, RECYCLES)
        after = State(supervisor, counted)
        figures.tell(f"supervisor and fork server after {so_far} recycles", before)
        figures.tell(f"supervisor and fork server after {recycled(supervisor, counted)} recycles", after)
        assert all(now <= then for now, then in zip(after.descriptors, before.descriptors, strict=True))
        assert all(now <= then + SLACK_BYTES for now, then in zip(after.memory, before.memory, strict=True))
        if FULL_SCALE:
            assert after.scrape_s <= 2 * before.scrape_s + SLACK_S
