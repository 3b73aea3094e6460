"""Claim and settle in batches, nothing else: `claims URL lock|update kept|gone BATCH [TURNS]`.

`lock` keeps the rows locked in an open transaction until they are deleted; `update` marks them running first. Each
batch is one pipelined round trip with one commit. Says when each batch was committed, and of how many jobs. With TURNS,
each job is a piece of pure-Python work.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg

from bench.burning import burn
from bench.floors.speech import say, wait_for_go

LOCK: Final = """
select id, name, payload::text from bench.jobs where queue = 'default' and state = 'ready' and not suspect
order by priority, pos limit %(limit)s for no key update skip locked
"""
UPDATE: Final = """
with picked as materialized (
    select id from bench.jobs where queue = 'default' and state = 'ready' and not suspect order by priority, pos
    limit %(limit)s for no key update skip locked
)
update bench.jobs j set state = 'running', host = 1, claim_no = 1, run_no = j.run_no + 1, attempt = j.attempt + 1,
    claimed_at = clock_timestamp()
where j.id = any (array(select id from picked))
returning j.id, j.name, j.payload::text, j.run_no
"""
DELETE: Final = "delete from bench.jobs where id = any(%(ids)s)"
ARCHIVE: Final = """
with gone as (delete from bench.jobs where id = any(%(ids)s) returning *)
insert into bench.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state,
                            queue, name, tenant, idempotency_key, payload)
select id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, 'done',
       queue, name, tenant, idempotency_key, payload
from gone
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How jobs are held and what becomes of them."""

    claim: LiteralString
    settle: LiteralString
    holds_locks: bool


def shape(held: str, ended: str) -> Shape:
    """As the command line names it."""
    settle = {"kept": ARCHIVE, "gone": DELETE}[ended]
    return {
        "lock": Shape(claim=LOCK, settle=settle, holds_locks=True),
        "update": Shape(claim=UPDATE, settle=settle, holds_locks=False),
    }[held]


def work(conn: psycopg.Connection, how: Shape, limit: int, turns: int) -> list[tuple[int, int]]:
    """Settle the last batch and claim the next in one round trip, until there is none."""
    log = list[tuple[int, int]]()
    ids = list[int]()
    while True:
        with conn.pipeline():
            if ids:
                conn.execute(how.settle, {"ids": ids})
            if how.holds_locks:
                if ids:
                    conn.execute("commit")
                conn.execute("begin")
            claimed = conn.execute(how.claim, {"limit": limit})
        if ids:
            log.append((time.monotonic_ns(), len(ids)))
        ids = [row[0] for row in claimed.fetchall()]
        if not ids:
            return log
        if turns:
            for _ in ids:
                burn(turns)


def main() -> None:
    """Connect, wait, work."""
    url, held, ended, limit, *turns = sys.argv[1:]
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as conn:
        say("ready")
        wait_for_go()
        say(work(conn, shape(held, ended), int(limit), int(turns[0]) if turns else 0))


if __name__ == "__main__":
    main()
