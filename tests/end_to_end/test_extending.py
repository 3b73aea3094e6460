"""A job that moves its own deadline: it lives on, or ends sooner, and the supervisor sees it too."""

from pathlib import Path

import pytest

from tests.processes import running
from tests.side_table import Database
from tests.support import until

ENV = {"STOKER_APP": "tests.ladder_jobs", "STOKER_KILL_AFTER": "300ms"}
LANES = {"one lane": "default=1", "many lanes": "default=1x4"}


@pytest.mark.parametrize("queues", LANES.values(), ids=LANES)
def test_a_job_that_extends_its_deadline_lives(tmp_path: Path, db: Database, queues: str) -> None:
    with running(tmp_path, db.url, {**ENV, "STOKER_QUEUES": queues}):
        for name in ("extends", "extends_async"):
            (job,) = db.enqueue(name, '{"s": 600}', max_attempts=5)
            db.until_effect(job, "extended")
            (attempt,) = db.conn.execute(
                "select max(attempt) from effects where job_id = %s and what = 'extended'", (job,)
            ).fetchone() or (0,)
            # Beyond the timeout it declares, and the time to kill it.
            until(
                lambda job=job: db.one(
                    "select max(at) < clock_timestamp() - interval '3 s' from effects where job_id = %s", job
                )
            )  # type: ignore[misc]
            db.release(job)
            assert db.until_state(job, "done").attempt == attempt


@pytest.mark.parametrize("queues", LANES.values(), ids=LANES)
def test_a_deadline_may_be_sooner_or_new(tmp_path: Path, db: Database, queues: str) -> None:
    with running(tmp_path, db.url, {**ENV, "STOKER_QUEUES": queues}):
        (sooner,) = db.enqueue("shortens_and_swallows", '{"s": 0.3}', max_attempts=1)
        (new,) = db.enqueue("limits_itself", '{"s": 0.3}', max_attempts=2)
        for job in (sooner, new):
            view = db.until_state(job, "dead")
            assert view.error["code"] == "STOKER_JOB_TIMEOUT"
            assert "its timeout of 600 s" not in view.error["message"]
            assert view.crashes == 0
