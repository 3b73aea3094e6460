"""Workers that are old are replaced: by one that is ready, while the job they run ends in peace."""

import os
from pathlib import Path

from tests.processes import running
from tests.side_table import Database
from tests.support import until

TOML = '[queues.default]\nprocesses = 2\nmax_age = "1s"\n'


def test_old_workers_go_when_their_successors_are_ready_and_their_jobs_are_done(tmp_path: Path, db: Database) -> None:
    (tmp_path / "stoker.toml").write_text(TOML)
    with running(tmp_path, db.url, {"STOKER_QUEUES": "default"}) as supervisor:
        (job,) = db.enqueue("held")
        db.until_effect(job)
        pid = db.one("select pid from effects where job_id = %s", job)
        until(lambda: pid in [retired["pid"] for retired in supervisor.events("child.retired")])
        os.kill(pid, 0)
        db.release(job)
        assert db.until_state(job, "done").attempt == 1
        assert db.effects("start")[job] == 1
        until(lambda: len(supervisor.events("child.retired")) >= 4)
        assert {retired["reason"] for retired in supervisor.events("child.retired")} == {"its successor is ready"}
        assert not [lost for lost in supervisor.events("readiness.lost") if "worker" in str(lost["reasons"])]
        db.until_all_done(db.enqueue("answer", times=20))
