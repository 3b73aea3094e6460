"""A handler that forks and comes back twice: only the original goes on as a worker."""

from itertools import chain
from pathlib import Path

import pytest

from tests.processes import running
from tests.side_table import Database
from tests.support import until

CODES = {"return": 0, "exit": 3, "error": 1}


@pytest.mark.parametrize("queues", ["default=1", "default=1x3"])
def test_a_copy_of_a_worker_ends_with_the_handler(tmp_path: Path, db: Database, queues: str) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": queues}) as supervisor:
        forks = {by: db.enqueue("forks_and_comes_back_twice", f'{{"by": "{by}"}}', times=3) for by in CODES}
        after = db.enqueue("answer", times=20)
        db.until_all_done([*chain(*forks.values(), after)])
        for by, code in CODES.items():
            for job in forks[by]:
                assert db.job(job).result == {"from": "the original", "copy": code}
                assert db.job(job).attempt == 1
        assert all(times == 1 for times in db.effects("end").values())
        until(lambda: len(supervisor.processes("stoker: worker")) == 1)
        assert not supervisor.events("run.lease_lost")
        supervisor.ready()


@pytest.mark.parametrize("queues", ["default=1", "default=1x3"])
def test_an_error_that_exits_when_it_is_read_is_an_error(tmp_path: Path, db: Database, queues: str) -> None:
    with running(tmp_path, db.url, {"STOKER_QUEUES": queues}):
        (job,) = db.enqueue("raises_what_exits_when_read", max_attempts=1)
        view = db.until_state(job, "dead")
        assert view.crashes == 0
        assert view.error["message"] == "<its message cannot be read: SystemExit>"
