"""Jobs for queues with several lanes, among them one that takes its neighbours with it."""

import os
import signal
import time

from setproctitle import getproctitle

from stoker import Ctx, Retry, job
from tests.sabotage import _connection, effect

# The others may all be in another process.
PATIENCE_S = 5.0


@job(retry=Retry(attempts=20, base=0.05, jitter=False))
def poison(payload: dict, ctx: Ctx) -> None:
    """Kills its process, and among others not before `others` of them have begun there too."""
    effect(ctx, f"start in {getproctitle()}")
    began = time.monotonic()
    if not getproctitle().endswith("/solo"):
        while _begun_here() < payload["others"] and time.monotonic() < began + PATIENCE_S:
            time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


@job
def good(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    time.sleep(0.01)
    effect(ctx, "end")


def _begun_here() -> int:
    query = (
        "select count(distinct job_id) from effects e where pid = %s and what = 'start' and not exists"
        " (select from effects o where o.job_id = e.job_id and o.pid = e.pid and o.what = 'end')"
    )
    row = _connection[0].execute(query, (os.getpid(),)).fetchone()
    return int(row[0]) if row else 0
