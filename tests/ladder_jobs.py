"""Jobs that do not end when they should, each in a way of its own, and jobs that move their deadline."""

import asyncio
import ctypes
import os
import subprocess
import time

from stoker import Ctx, Retry, job
from tests.deaf_bodies import computes, keeps_the_gil, masks_its_signals, swallows_for_ever, waits_in_c
from tests.sabotage import effect, released

_TIMEOUT_S = 0.5
_AGAIN = Retry(attempts=2, base=0.05, factor=1, jitter=False)
_MANY = Retry(attempts=20, base=0.05, factor=1, jitter=False)

_DOINGS = {
    doing.__name__: doing for doing in (swallows_for_ever, waits_in_c, masks_its_signals, keeps_the_gil, computes)
}


def perform(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    if payload.get("child"):
        subprocess.Popen(["sleep", payload["child"]])
    _DOINGS[payload["do"]]()


@job(timeout=_TIMEOUT_S, retry=_MANY)
def limited(payload: dict, ctx: Ctx) -> None:
    """Times out."""
    perform(payload, ctx)


@job(retry=_MANY)
def unlimited(payload: dict, ctx: Ctx) -> None:
    """Ends only by a cancel."""
    perform(payload, ctx)


@job(retry=_MANY)
def reads_nowhere(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    ctypes.string_at(0)


@job(retry=_MANY)
def aborts(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    os.abort()


@job(timeout=2, retry=_AGAIN)
def extends(payload: dict, ctx: Ctx) -> None:
    ctx.extend(payload["s"])
    effect(ctx, "extended")
    while not released(ctx):
        time.sleep(0.02)


@job(timeout=2, retry=_AGAIN)
async def extends_async(payload: dict, ctx: Ctx) -> None:
    ctx.extend(payload["s"])
    effect(ctx, "extended")
    while not released(ctx):
        await asyncio.sleep(0.02)


@job(timeout=600, retry=_AGAIN)
def shortens_and_swallows(payload: dict, ctx: Ctx) -> None:
    ctx.extend(payload["s"])
    effect(ctx, "extended")
    swallows_for_ever()


@job(retry=_AGAIN)
def limits_itself(payload: dict, ctx: Ctx) -> None:
    ctx.extend(payload["s"])
    effect(ctx, "extended")
    time.sleep(600)
