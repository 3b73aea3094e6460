"""Claim and settle in batches, nothing else: `claims URL BATCH`."""

from __future__ import annotations

import sys

import psycopg

from bench.floors.speech import say, wait_for_go

CLAIM = """
with picked as materialized (
    select id from bench.jobs where queue = 'default' and state = 'ready' order by priority, pos
    limit %(limit)s for no key update skip locked
)
update bench.jobs j set state = 'running', host = 1, claim_no = 1, run_no = j.run_no + 1, attempt = j.attempt + 1,
    claimed_at = clock_timestamp()
from picked where j.id = picked.id
returning j.id, j.run_no, j.name, j.payload::text
"""
SETTLE = """
with gone as (delete from bench.jobs where id = any(%(ids)s) and state = 'running' returning *)
insert into bench.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state,
                            queue, name, payload)
select id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, 'done', queue, name, payload
from gone
"""


def work(conn: psycopg.Connection, limit: int) -> int:
    """Settle the last batch and claim the next in one round trip, until there is none; returns the number of jobs."""
    settled, ids = 0, list[int]()
    while True:
        with conn.pipeline():
            if ids:
                conn.execute(SETTLE, {"ids": ids})
            claimed = conn.execute(CLAIM, {"limit": limit})
        settled += len(ids)
        ids = [row[0] for row in claimed]
        if not ids:
            return settled


def main() -> None:
    """Connect, wait, work."""
    with psycopg.connect(sys.argv[1], autocommit=True, prepare_threshold=0) as conn:
        say("ready")
        wait_for_go()
        say(work(conn, int(sys.argv[2])))


if __name__ == "__main__":
    main()
