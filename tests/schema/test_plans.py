"""The hot statements walk their own index, however much lies beside what they look for."""

import json
from typing import Any

import pytest

from stoker.database import STEADY_PLANS
from stoker.sql import statement
from tests.side_table import Database

ROWS = 20_000


@pytest.fixture
def crowded(db: Database) -> Database:
    """Many delayed rows and other queues' rows, none of which a claim wants."""
    db.conn.execute(
        "insert into stoker.jobs (id, pos, queue, name, state, run_at, payload)"
        " select i, i, 'q' || i %% 10, 'n', case when i %% 2 = 0 then 'delayed' else 'ready' end,"
        " case when i %% 2 = 0 then now() + i * interval '1 s' end, '{}' from generate_series(1, %s::int) i",
        (ROWS,),
    )
    db.conn.execute("analyze stoker.jobs")
    db.conn.execute(STEADY_PLANS)
    return db


def plan(db: Database, name: str, **params: Any) -> str:
    row = db.conn.execute("explain (format json) " + statement(name), params).fetchone()
    assert row
    return json.dumps(row[0])


def test_claim(crowded: Database) -> None:
    beginning = {"mark_priority": -32768, "mark_pos": 0}
    text = plan(crowded, "claim_batch", queue="q1", limit=100, host=1, claim_no=1, **beginning)
    assert "jobs_ready" in text
    assert '"Sort"' not in text
    assert text.count('"Seq Scan"') == 0


@pytest.mark.parametrize(
    ("name", "index", "params"),
    [
        ("promote_due", "jobs_due", {"limit": 100}),
        ("next_due", "jobs_due", {}),
        ("release_unheld", "jobs_held", {"host": 1, "claim_no": 1, "held": [1]}),
        ("unpark_known", "jobs_put_off", {"names": ["n"], "limit": 100}),
        ("read_job", "jobs_pkey", {"id": 1}),
    ],
)
def test_others(crowded: Database, name: str, index: str, params: dict[str, Any]) -> None:
    text = plan(crowded, name, **params)
    assert index in text
    assert '"Relation Name": "jobs", "Schema"' not in text
    assert (
        '"Node Type": "Seq Scan", "Parallel Aware": false, "Async Capable": false, "Relation Name": "jobs"' not in text
    )


def test_settling_walks_the_primary_key(crowded: Database) -> None:
    text = plan(crowded, "settle_done", ids=[1, 2, 3], run_nos=[1, 1, 1], results=[None, None, None], keep=True)
    assert "jobs_pkey" in text
