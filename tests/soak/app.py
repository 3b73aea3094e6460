"""The jobs of a soak: each says in a file what it really did, so that no fault of the database is one of theirs."""

import asyncio
import os
import signal
import time

from stoker import Ctx, Retry, job
from tests import effects

_RETRY = Retry(attempts=20, base=0.05, jitter=False)


@job(retry=_RETRY)
def quick(payload: dict, ctx: Ctx) -> None:
    """A short one."""
    effects.note(ctx.job_id, ctx.attempt, "start")
    effects.note(ctx.job_id, ctx.attempt, "end")


@job(retry=_RETRY)
def nap(payload: dict, ctx: Ctx) -> None:
    """A long one that knows nothing of signals."""
    effects.note(ctx.job_id, ctx.attempt, "start")
    time.sleep(payload["s"])
    effects.note(ctx.job_id, ctx.attempt, "end")


@job(retry=_RETRY)
async def doze(payload: dict, ctx: Ctx) -> None:
    """One of many on an event loop."""
    effects.note(ctx.job_id, ctx.attempt, "start")
    await asyncio.sleep(payload["s"])
    effects.note(ctx.job_id, ctx.attempt, "end")


@job(retry=_RETRY)
def fail(payload: dict, ctx: Ctx) -> None:
    """Raises in its first attempt."""
    effects.note(ctx.job_id, ctx.attempt, "start")
    if ctx.attempt == 1:
        raise ValueError("as told")
    effects.note(ctx.job_id, ctx.attempt, "end")


@job(retry=_RETRY)
def poison(payload: dict, ctx: Ctx) -> None:
    """Kills its process every time."""
    effects.note(ctx.job_id, ctx.attempt, "start")
    os.kill(os.getpid(), signal.SIGKILL)
