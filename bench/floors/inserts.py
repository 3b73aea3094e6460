"""What a single enqueue stores, as a bare prepared insert."""

from __future__ import annotations

from typing import Any, Final

import psycopg

# All columns that an enqueue gives.
INSERT: Final = """
insert into bench.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, idempotency_key, payload)
select n, n, %(queue)s, %(name)s, 'ready', %(priority)s, %(run_at)s::timestamptz, %(max_attempts)s, %(tenant)s,
       %(idempotency_key)s, %(payload)s::jsonb
from nextval('stoker.job_numbers') n returning id
"""
VALUES: Final[dict[str, Any]] = {
    "queue": "default",
    "name": "noop",
    "priority": 0,
    "run_at": None,
    "max_attempts": 20,
    "tenant": None,
    "idempotency_key": None,
    "payload": '{"id":7}',
}


def insert(conn: psycopg.Connection[Any]) -> object:
    """One job; committed unless the caller has a transaction open."""
    return conn.execute(INSERT, VALUES, prepare=True).fetchone()
