"""What the keeper asks every second must stay cheap with 100,000 jobs: index scans only, and few rows touched."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from stoker.database import connect
from stoker.sql import statement
from tests.keeper.rig import Queue

JOBS = 100_000


@pytest.fixture(scope="module")
def full(worker_database: str) -> Iterator[psycopg.Connection[Any]]:
    """100,000 jobs: delayed ones far ahead, ready ones, and the running rows of four hosts with five children each."""
    conn = connect(worker_database, name="tests")
    conn.execute("truncate stoker.jobs, stoker.hosts, stoker.cancels")
    conn.execute(
        "insert into stoker.jobs (pos, queue, name, payload, state, run_at)"
        " select n, 'default', 'job', '{}', case when n %% 2 = 0 then 'ready' else 'delayed' end,"
        " clock_timestamp() + interval '1 day' + n * interval '1 s' from generate_series(1, %s) n",
        (JOBS - 1000,),
    )
    conn.execute(
        "insert into stoker.jobs (pos, queue, name, payload, state, host, claim_no, claimed_at)"
        " select n, 'default', 'job', '{}', 'running', 100 + n % 4, n % 5, now() from generate_series(1, 1000) n"
    )
    conn.execute(
        "insert into stoker.hosts (id, hostname, machine, pid_namespace, lock_path, lock_inode)"
        " select 100 + n, 'h', 'm', 'p', '/l', '1:1' from generate_series(0, 3) n"
    )
    conn.execute("analyze stoker.jobs")
    yield conn
    conn.execute("truncate stoker.jobs, stoker.hosts")
    conn.close()


PARAMS: dict[str, dict[str, Any]] = {
    "promote_due": {"limit": 1000},
    "next_due": {},
    "list_holders": {"host": 101},
    "read_held": {"host": 101, "claim_nos": [3], "after": 0, "limit": 500},
    "sweep_lost": {"max_lost": 9, "limit": 500, "keep_dead": True, "keep_cancelled": True, "notify": True},
    "unpark_known": {"names": ["job"], "limit": 1000},
    "drop_host": {"id": 101},
    "read_requests": {"ids": None, "after": 0, "limit": 500},
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.mark.parametrize("name", PARAMS)
def test_no_statement_reads_more_of_the_jobs_than_it_needs(full: psycopg.Connection[Any], name: str) -> None:
    with full.transaction(force_rollback=True):
        row = full.execute("explain (analyze, format json) " + statement(name), PARAMS[name]).fetchone()
    assert row
    plan = (row[0] if isinstance(row[0], list) else json.loads(row[0]))[0]["Plan"]
    scans = [node for node in nodes(plan) if node.get("Relation Name") == "jobs"]
    assert scans, plan
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"], json.dumps(plan, indent=1)
    read = sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)
    assert read <= 300, json.dumps(plan, indent=1)


def test_a_generic_plan_is_as_good(full: psycopg.Connection[Any]) -> None:
    with full.transaction(force_rollback=True):
        full.execute("set local plan_cache_mode = force_generic_plan")
        for name in ("promote_due", "read_held", "list_holders"):
            cursor = full.execute("explain (analyze, format json) " + statement(name), PARAMS[name], prepare=True)
            plan = cursor.fetchone()[0][0]["Plan"]  # type: ignore[index]
            assert not [n for n in nodes(plan) if n["Node Type"] == "Seq Scan" and n.get("Relation Name") == "jobs"]


def test_the_sweep_of_a_lost_host_reads_its_rows_only(full: psycopg.Connection[Any]) -> None:
    with full.transaction(force_rollback=True):
        full.execute("delete from stoker.hosts where id = 102")
        row = full.execute("explain (analyze, format json) " + statement("sweep_lost"), PARAMS["sweep_lost"]).fetchone()
        left = full.execute("select count(*) from stoker.jobs where host = 102").fetchone()
    assert row and left == (0,)
    scans = [node for node in nodes(row[0][0]["Plan"]) if node.get("Relation Name") == "jobs"]
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"], json.dumps(row[0], indent=1)


def test_the_queue_fixture_finds_an_empty_table_again(queue: Queue) -> None:
    assert queue.states() == {}
