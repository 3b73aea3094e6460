"""Wait for a notification, claim one row, say when: `listener URL BEACON`."""

from __future__ import annotations

import sys

import psycopg

from bench.beacon import report
from bench.floors.claims import UPDATE
from bench.floors.speech import say

INSERT = """
with new as (insert into bench.jobs (id, pos, queue, name, payload)
             select n, n, 'default', 'started', '{}' from nextval('stoker.job_numbers') n returning id)
select pg_notify('bench_ready', '') from new
"""


def main() -> None:
    """Until killed."""
    with psycopg.connect(sys.argv[1], autocommit=True, prepare_threshold=0) as conn:
        conn.execute("listen bench_ready")
        say("ready")
        while True:
            for _ in conn.notifies(stop_after=1):
                pass
            claimed = conn.execute(UPDATE, {"limit": 1}).fetchall()
            report(sys.argv[2])
            conn.execute("delete from bench.jobs where id = any(%s)", ([row[0] for row in claimed],))


if __name__ == "__main__":
    main()
