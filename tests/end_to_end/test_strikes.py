"""TERM and KILL at random moments of a reload and of recycling: always out, and nobody is left."""

import itertools
import random
import signal
import time
from pathlib import Path

import pytest

from tests.processes import running
from tests.side_table import Database
from tests.support import FULL_SCALE, SOON_S, scaled, until

RECYCLING = "[queues.default]\nprocesses = 2\nmax_jobs = 1\njitter = 0.0\n"
CELLS = tuple(itertools.product(("reload", "recycle"), (signal.SIGTERM, signal.SIGKILL)))


@pytest.mark.parametrize(("moment", "number"), CELLS if FULL_SCALE else CELLS[::3])
def test_at_any_moment(tmp_path: Path, db: Database, moment: str, number: signal.Signals) -> None:
    (tmp_path / "stoker.toml").write_text(RECYCLING if moment == "recycle" else "")
    queues = "default" if moment == "recycle" else "default=2"
    for _ in range(scaled(1, 50)):
        with running(tmp_path, db.url, {"STOKER_QUEUES": queues}) as supervisor:
            if moment == "recycle":
                # Each of them is one worker's last.
                jobs = db.enqueue("answer", times=100)
                db.until_effect(jobs[0], "end")
                time.sleep(random.uniform(0.0, 0.5))
            else:
                supervisor.send(signal.SIGHUP)
                time.sleep(random.uniform(0.0, 1.0))
            supervisor.send(number)
            assert supervisor.wait() == (0 if number == signal.SIGTERM else -number), supervisor.log
            until(lambda: not supervisor.processes(), within=SOON_S)
            assert "Traceback" not in supervisor.log
        if number == signal.SIGTERM:
            assert db.one("select count(*) from stoker.jobs where state = 'running'") == 0
            assert db.one("select count(*) from stoker.hosts") == 0
        db.conn.execute("truncate stoker.jobs, stoker.hosts")
    # One that was killed with its body at work, for want of a processor, is interrupted.
    assert db.one("select count(*) from stoker.attempts where outcome not in ('lost', 'interrupted')") == 0
