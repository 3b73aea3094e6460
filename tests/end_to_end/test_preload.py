"""`@preload`: once per fork server, shared by its workers, and refused like an import that fails."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.preloading import BROKEN, LOADED_BY, SIZE, THREADED
from tests.processes import Supervisor, running
from tests.side_table import Database
from tests.support import until, whole_lines

APP = {"STOKER_APP": "tests.preloading_app", "STOKER_QUEUES": "default=2"}


def looks(db: Database) -> list[dict[str, Any]]:
    """What two workers see that look at the same time."""
    jobs = db.enqueue("looks", times=2)
    for job in jobs:
        db.until_effect(job)
    db.release(*jobs)
    return [db.until_state(job, "done").result for job in jobs]


def test_it_runs_once_in_the_fork_server_and_all_workers_share_what_it_loaded(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, APP) as supervisor:
        first, second = looks(db)
        assert first["pid"] != second["pid"]
        assert [first["loaded_by"]] == [server["pid"] for server in supervisor.events("app.imported")]
        assert first["loaded_by"] == second["loaded_by"]
        assert max(first["private"], second["private"]) < SIZE / 8, "nobody has a copy"
        [told] = supervisor.events("app.preloaded")
        assert (told["hooks"], told["role"]) == (1, "fork server")

        supervisor.send(signal.SIGHUP)
        until(lambda: supervisor.events("reload.finished"))
        again, _ = looks(db)
        assert again["loaded_by"] != first["loaded_by"], "a fresh fork server loads it anew"
        assert whole_lines(tmp_path / LOADED_BY) == [str(first["loaded_by"]), str(again["loaded_by"])]


@pytest.mark.parametrize(
    ("fault", "said"), [(BROKEN, "OSError: no table today"), (THREADED, "it leaves threads (pump)")], ids=str
)
def test_a_hook_that_fails_ends_the_first_start(tmp_path: Path, db: Database, fault: Path, said: str) -> None:
    (tmp_path / fault).touch()
    supervisor = Supervisor(tmp_path, db.url, **APP)
    try:
        assert supervisor.start().wait() == 78
        [told] = supervisor.events("supervisor.gives_up")
        assert told["reason"].startswith("STOKER_PRELOAD_FAILED: The preload hook tests.preloading_app.load_table (")
        assert said in told["reason"]
    finally:
        supervisor.end()


def test_a_hook_that_fails_at_a_reload_leaves_the_old_generation(tmp_path: Path, db: Database) -> None:
    with running(tmp_path, db.url, APP) as supervisor:
        [server] = supervisor.events("app.imported")
        (tmp_path / BROKEN).touch()
        supervisor.send(signal.SIGHUP)
        [failed] = until(lambda: supervisor.events("reload.failed"))
        assert "STOKER_PRELOAD_FAILED" in failed["error"] and "no table today" in failed["error"]
        assert "in load_table" in failed["where"]
        assert {seen["loaded_by"] for seen in looks(db)} == {server["pid"]}
