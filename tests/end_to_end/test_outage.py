"""The database is away for a while: what runs goes on, nothing is lost, nobody burns the processor or the log."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.figures import Figures
from tests.processes import Supervisor, running
from tests.proxy import Proxy
from tests.side_table import Database
from tests.support import FULL_SCALE, HANGS_S, scaled, until

OUTAGE_S = scaled(3, 60)
RESUMED_S = 5.0
MOST_CPU = 0.05


@pytest.fixture
def proxy(db: Database) -> Iterator[Proxy]:
    with Proxy(db.url) as proxy:
        yield proxy


@pytest.mark.parametrize("how", ["refuse", "blackhole"] if FULL_SCALE else ["refuse"])
def test_an_outage(tmp_path: Path, db: Database, proxy: Proxy, figures: Figures, how: str) -> None:
    with running(tmp_path, proxy.url, {"STOKER_QUEUES": "default=3", "TEST_SIDE_TABLE": db.url}) as supervisor:
        host = db.one("select id from stoker.hosts")
        enough, at_last = tmp_path / "enough", tmp_path / "at last"
        short, long = (db.enqueue("quiet", f'{{"until": "{file}"}}')[0] for file in (enough, at_last))
        until(lambda: {db.state(job) for job in (short, long)} == {"running"})
        workers = {process.pid for process in supervisor.processes("stoker: worker")}
        said = len(supervisor.log.splitlines())
        getattr(proxy, how)()
        away = time.monotonic()
        until(lambda: supervisor.health("/readyz")[0] == 503)
        enough.touch()
        used, since = cpu_s(supervisor), time.monotonic()
        until(lambda: time.monotonic() - away > OUTAGE_S, within=OUTAGE_S + HANGS_S)
        share = (cpu_s(supervisor) - used) / (time.monotonic() - since)
        proxy.heal()
        back = time.monotonic()
        (fresh,) = db.enqueue("noop")
        db.until_all_done([short, fresh])
        resumed = time.monotonic() - back
        supervisor.ready()
        lines = supervisor.log.splitlines()[said:]
        at_last.touch()
        for job in (short, long):
            view = db.until_state(job, "done")
            assert (view.attempt, view.run_no, view.lost) == (1, 1, 0)
        assert {process.pid for process in supervisor.processes("stoker: worker")} == workers
        assert db.one("select id from stoker.hosts") == host
        outage = f"{OUTAGE_S} s without database ({how})"
        figures.tell(f"{outage}, share of one processor", f"{share:.1%}")
        figures.tell(f"{outage}, lines in the log", len(lines))
        figures.seconds(f"{outage}, from its return until old and new jobs have ended", [resumed], most=RESUMED_S)
        assert share < MOST_CPU or not FULL_SCALE
        assert max(changes(lines).values()) == 1, changes(lines)


def changes(lines: list[str]) -> Counter[tuple[str, ...]]:
    """What was said of connections, by whom and of which: a change of state is said once, a retry would be again."""
    events = [json.loads(line) for line in lines]
    about = ("event", "role", "slot", "connection", "child")
    of_connections = [one for one in events if one["event"].startswith(("database.", "child.waiting"))]
    return Counter(tuple(str(one.get(fact)) for fact in about) for one in of_connections)


def cpu_s(supervisor: Supervisor) -> float:
    """What all of its processes have used."""
    total = 0.0
    for process in supervisor.processes():
        times: psutil._pslinux.pcputimes = process.cpu_times()
        total += times.user + times.system
    return total
