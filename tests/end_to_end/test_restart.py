"""PostgreSQL itself is stopped and started again under running jobs."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker import embedded
from stoker.database import connect
from stoker.migrate import migrate
from tests.processes import running
from tests.side_table import EFFECTS, Database
from tests.support import scaled, until

OUTAGE = scaled(4, 60)


@pytest.fixture
def root() -> Iterator[Path]:
    """A server of this test's own, because it is stopped."""
    root = Path(tempfile.mkdtemp(prefix="stoker-restart-"))
    root.chmod(0o755)
    yield root
    assert embedded.wait_until_stopped(root)
    shutil.rmtree(root)


def start(root: Path) -> embedded.Server:
    return embedded.acquire(root, settings={"fsync": "off"})


def test_nobody_is_judged_and_nothing_runs_twice(root: Path, tmp_path: Path) -> None:
    server = start(root)
    with connect(server.url, name="test") as conn:
        migrate(conn)
        conn.execute(EFFECTS)
    with running(tmp_path, server.url, {"STOKER_QUEUES": "default=2,spare=1"}) as supervisor:
        db = Database(server.url)
        host = db.one("select id from stoker.hosts")
        enough, at_last = tmp_path / "enough", tmp_path / "at last"
        short, long = (db.enqueue("quiet", json.dumps({"until": str(file)}))[0] for file in (enough, at_last))
        until(lambda: db.one("select count(*) from stoker.jobs where state = 'running'") == 2)
        workers = {process.pid for process in supervisor.processes("stoker: worker")}
        db.close()
        server.close()
        assert embedded.wait_until_stopped(root)
        enough.touch()
        stopped = time.monotonic()
        until(lambda: time.monotonic() - stopped > OUTAGE, within=OUTAGE + 1)
        server = start(root)
        back = time.monotonic()
        db = Database(server.url)
        (fresh,) = db.enqueue("noop")
        db.until_state(fresh, "done")
        assert time.monotonic() - back < 15
        at_last.touch()
        for job in (short, long):
            view = db.until_state(job, "done")
            assert (view.attempt, view.run_no, view.lost) == (1, 1, 0)
        assert db.one("select id from stoker.hosts") == host
        supervisor.ready()
        assert {process.pid for process in supervisor.processes("stoker: worker")} == workers
        db.close()
        assert supervisor.stop()[0] == 0
    server.close()
