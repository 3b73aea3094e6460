"""What workers and keepers execute touches few pages, whatever lies about and whenever the plan was made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from stoker import embedded
from stoker.database import STEADY_PLANS, connect
from stoker.migrate import migrate
from tests.schema.explaining import Plan, explain
from tests.support import scaled

DELAYED, BLOCKED, FINISHED = scaled(50_000, 200_000), scaled(25_000, 100_000), scaled(50_000, 200_000)
READY, RUNNING, DUE, SUSPECT = 20_000, 500, 100, 1_000
BATCH = 100

_ROWS = "insert into stoker.jobs (pos, queue, name, payload, state, run_at, host, claim_no, run_no) "
FILL = (
    _ROWS + "select i, 'default', 'n', '{}', 'delayed', now() + interval '1 h' + i * interval '1 s', null, null, 0"
    f" from generate_series(1, {DELAYED}) i",
    _ROWS + f"select i, 'default', 'n', '{{}}', 'blocked', null, null, null, 0 from generate_series(1, {BLOCKED}) i",
    _ROWS + f"select i, 'default', 'n', '{{}}', 'ready', null, null, null, 0 from generate_series(1, {READY}) i",
    _ROWS + "select i, 'default', 'n', '{}', 'running', null, 1 + mod(i, 4), mod(i, 5), 1"
    f" from generate_series(1, {RUNNING}) i",
    _ROWS + "select i, 'default', 'n', '{}', 'delayed', now() - interval '1 h', null, null, 0"
    f" from generate_series(1, {DUE}) i",
    "insert into stoker.finished (id, run_no, created_at, attempt, max_attempts, crashes, lost, priority, state, queue,"
    " name, payload) select i, 1, now(), 1, 20, 0, 0, 0, 'done', 'default', 'n', '{}'"
    f" from generate_series(1, {FINISHED}) i",
    "insert into stoker.hosts (id, hostname, machine, pid_namespace, lock_path, lock_inode)"
    " select i, 'h', 'm', 'p', '/l', '1:1' from generate_series(1, 3) i",
    "insert into stoker.suspects (job_id, host, claim_no, run_no, death)"
    " select id, 1, 1, 1, '{}' from stoker.jobs where state = 'ready' order by id desc limit 20",
    "insert into stoker.cancels (job_id) select id from stoker.jobs where state = 'blocked' limit 20",
    "insert into stoker.jobs (pos, queue, name, payload, suspect)"
    f" select i, 'default', 'n', '{{}}', true from generate_series(1, {SUSPECT}) i",
)
BEGINNING = {"mark_priority": -32768, "mark_pos": 0}
KEEP = {"keep_dead": True, "keep_cancelled": True, "notify": True}

# Name: parameters, the index by which jobs are found, the most pages that may be touched.
CASES: dict[str, tuple[dict[str, Any], str, int]] = {
    "lock_batch": ({"queue": "default", "limit": BATCH, **BEGINNING}, "jobs_ready", 2 * BATCH),
    "claim_batch": (
        {"queue": "default", "limit": BATCH, "host": 1, "claim_no": 1, **BEGINNING},
        "jobs_ready",
        25 * BATCH,
    ),
    "claim_suspect": ({"queue": "default", "host": 1, "claim_no": 1}, "jobs_suspect", 100),
    "find_suspects": ({"queues": ["default", "other", "third"]}, "jobs_suspect", 20),
    "settle_done": ({"ids": [], "run_nos": [], "results": [], "keep": True}, "jobs_pkey", 20 * BATCH),
    "settle_batch": (
        {key: [] for key in ("ids", "run_nos", "outcomes", "delays", "errors", "crashed", "started_ago")}
        | {"keep_attempts": 50, **KEEP},
        "jobs_pkey",
        30 * BATCH,
    ),
    "finish_locked": ({"ids": [], "results": []}, "jobs_pkey", 20 * BATCH),
    "drop_locked": ({"ids": []}, "jobs_pkey", 20 * BATCH),
    "lease_locked": ({"ids": [], "host": 1, "claim_no": 1}, "jobs_pkey", 25 * BATCH),
    "lease_again": ({"ids": [], "run_nos": [], "host": 1, "claim_no": 1}, "jobs_pkey", 25 * BATCH),
    "release_unheld": ({"host": 1, "claim_no": 1, "held": [1]}, "jobs_held", 25 * BATCH),
    "promote_due": ({"limit": 1000}, "jobs_due", 30 * DUE),
    "next_due": ({}, "jobs_due", 200),
    "read_requests": ({"ids": None, "after": 0, "limit": 500}, "jobs_pkey", 200),
    "end_requests": ({"waiting": [], "reasons": [], "gone": [5, 6]}, "jobs_pkey", 200),
    "list_holders": ({"host": 1}, "jobs_held", 200),
    "read_held": ({"host": 1, "claim_nos": [3], "after": 0, "limit": 500}, "jobs_held", 200),
    "sweep_lost": ({"max_lost": 9, "limit": 500, **KEEP}, "jobs_held", 30 * RUNNING // 4),
    "note_suspects": (
        {"ids": [], "run_nos": [], "ended": [], "host": 1, "claim_no": 1, "death": "{}"},
        "jobs_pkey",
        25 * BATCH,
    ),
    "lock_suspects": ({"limit": 100}, "jobs_pkey", 25 * BATCH),
    "take_suspects": ({"ids": [5, 6]}, "jobs_pkey", 25 * BATCH),
    "drop_host": ({"id": 1}, "jobs_held", 200),
}
STAGES = ("planned while empty", "believed empty", "analyzed", "analyzed, custom")


class Grown:
    """A database that was empty when its statistics and some of its plans were made."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sessions: list[Connection[Any]] = []
        self.plans: dict[tuple[str, str], Plan] = {}

    def session(self, *more: str) -> Connection[Any]:
        conn: Connection[Any] = connect(self._url, name="tests")
        self._sessions.append(conn)
        # psycopg would forget what was prepared whenever something is rolled back.
        conn.prepare_threshold = None
        conn.execute(STEADY_PLANS)
        for setting in more:
            conn.execute(setting)  # type: ignore[call-overload]
        return conn

    def look(self, stage: str, conn: Connection[Any]) -> None:
        """Execute every statement in this stage."""
        running = "select id from stoker.jobs where state = 'running' order by id limit %s"
        ready = "select id from stoker.jobs where state = 'ready' order by pos limit %s"
        for name, (params, _, _) in CASES.items():
            which = ready if name.endswith(("locked", "again")) else running
            ids = [row[0] for row in conn.execute(which, (BATCH,))] or [1]
            self.plans[stage, name] = explain(conn, name, params | _about(ids, params))

    def close(self) -> None:
        for conn in self._sessions:
            conn.close()


def _about(ids: list[int], params: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a statement, for these jobs."""
    same: dict[str, Any] = {
        "run_nos": 1,
        "outcomes": "retried",
        "delays": 0.0,
        "errors": None,
        "crashed": False,
        "started_ago": 0.0,
        "results": None,
    }
    arrays = {key: [value] * len(ids) for key, value in same.items() if key in params}
    return arrays | ({"ids": ids} if params.get("ids") == [] else {})


@pytest.fixture(scope="module")
def grown(server: embedded.Server) -> Iterator[Grown]:
    name = f"plans_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f'create database "{name}"')  # type: ignore[call-overload]
        grown = Grown(psycopg.conninfo.make_conninfo(server.url, dbname=name))
        try:
            _grow(grown)
            yield grown
        finally:
            grown.close()
            admin.execute(f'drop database "{name}" with (force)')  # type: ignore[call-overload]


def _grow(grown: Grown) -> None:
    conn = grown.session()
    migrate(conn)
    conn.execute("alter table stoker.jobs set (autovacuum_enabled = off)")
    conn.execute("analyze stoker.jobs")
    early = grown.session()
    grown.look("before", early)
    for text in FILL:
        conn.execute(text)  # type: ignore[call-overload]
    grown.look("planned while empty", early)
    grown.look("believed empty", grown.session())
    conn.execute("analyze")
    grown.look("analyzed", grown.session())
    grown.look("analyzed, custom", grown.session("set plan_cache_mode = force_custom_plan"))


@pytest.mark.parametrize("name", CASES)
def test_jobs_are_found_by_their_index(grown: Grown, name: str) -> None:
    _, index, _ = CASES[name]
    for stage in STAGES:
        plan = grown.plans[stage, name]
        kinds = {node["Node Type"] for node in plan.nodes("jobs")} - {"ModifyTable"}
        assert kinds <= {"Index Scan", "Index Only Scan"}, (stage, plan.root)
        assert index in plan.indexes("jobs"), (stage, plan.root)


@pytest.mark.parametrize("name", CASES)
def test_few_pages_are_touched_and_no_row_in_vain(grown: Grown, name: str) -> None:
    _, _, most = CASES[name]
    for stage in STAGES:
        plan = grown.plans[stage, name]
        assert plan.buffers <= most, (stage, plan.root)
        # A row may be looked at to pick, to lock and to write it.
        assert plan.rows_read <= 4 * max(BATCH, RUNNING // 4), (stage, plan.root)


@pytest.mark.parametrize("name", ["lock_batch", "claim_batch", "claim_suspect"])
def test_a_claim_sorts_nothing(grown: Grown, name: str) -> None:
    for stage in STAGES:
        assert '"Sort"' not in str(grown.plans[stage, name].root).replace("'", '"'), stage


@pytest.mark.parametrize("name", ["lock_batch", "claim_batch"])
def test_a_mark_is_where_the_index_scan_starts(grown: Grown, name: str) -> None:
    params, index, most = CASES[name]
    plan = explain(grown.session(), name, params | {"mark_priority": 0, "mark_pos": READY // 2})
    (scan,) = [node for node in plan.nodes("jobs") if node.get("Index Name") == index]
    assert "ROW(priority, pos) >" in scan["Index Cond"]
    assert plan.buffers <= most
