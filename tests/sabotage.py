"""Jobs that behave and jobs that do not. Each says what it really did in the side table `effects`."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from stoker import Ctx, Retry, job, on_start
from stoker.settings import load

_connection: list[psycopg.Connection] = []


def _side_table() -> str:
    # The way there must not go through a proxy that a test breaks.
    return os.environ.get("TEST_SIDE_TABLE") or load().database_url or ""


@on_start
def open_side_table() -> None:
    _connection.append(psycopg.connect(_side_table(), autocommit=True))


def effect(ctx: Ctx, what: str) -> None:
    """Write down that this happened, outside the queue's own tables."""
    try:
        _write(ctx, what)
    except psycopg.OperationalError:
        _connection[0] = psycopg.connect(_side_table(), autocommit=True)
        _write(ctx, what)


def _write(ctx: Ctx, what: str) -> None:
    _connection[0].execute(
        "insert into effects (job_id, attempt, pid, what) values (%s, %s, %s, %s)",
        (ctx.job_id, ctx.attempt, os.getpid(), what),
    )


@job
def noop(payload: dict) -> None:
    """Nothing."""


@job
def answer(payload: dict, ctx: Ctx) -> dict:
    effect(ctx, "end")
    return {"answer": payload.get("n", 0) + 1}


@job
def plain(payload: dict, ctx: Ctx) -> None:
    """Knows nothing of signals: sleeps in one call."""
    effect(ctx, "start")
    time.sleep(payload["s"])
    effect(ctx, "end")


@job
def quiet(payload: dict, ctx: Ctx) -> None:
    """Goes on until there is a file, and needs no database."""
    while not Path(payload["until"]).exists():
        time.sleep(0.02)


@job
def held(payload: dict, ctx: Ctx) -> None:
    """Goes on until the test releases it."""
    effect(ctx, "start")
    while not released(ctx):
        time.sleep(0.02)
    effect(ctx, "end")


@job
async def held_async(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    while not released(ctx):
        await asyncio.sleep(0.02)
    effect(ctx, "end")


def released(ctx: Ctx) -> bool:
    query = "select from effects where job_id = %s and what = 'release'"
    return _connection[0].execute(query, (ctx.job_id,)).fetchone() is not None


@job
def naps(payload: dict, ctx: Ctx) -> None:
    """Knows nothing of signals: sleeps in many small calls."""
    effect(ctx, "start")
    until = time.monotonic() + payload["s"]
    while time.monotonic() < until:
        time.sleep(0.001)
    effect(ctx, "end")


@job
def attentive(payload: dict, ctx: Ctx) -> None:
    """Ends when its signal says so."""
    effect(ctx, "start")
    until = time.monotonic() + payload["s"]
    while time.monotonic() < until:
        ctx.signal.wait(0.05)
        ctx.signal.raise_if_aborted()
    effect(ctx, "end")


@job
def deaf(payload: dict, ctx: Ctx) -> None:
    """Swallows everything anybody raises into it."""
    effect(ctx, "start")
    until = time.monotonic() + payload["s"]
    while time.monotonic() < until:
        try:
            time.sleep(0.05)
        except BaseException:
            continue
    effect(ctx, "end")


@job
async def drowsy(payload: dict, ctx: Ctx) -> None:
    """The async sleeper."""
    effect(ctx, "start")
    await asyncio.sleep(payload["s"])
    effect(ctx, "end")


@job
def burns(payload: dict, ctx: Ctx) -> None:
    """Keeps the GIL: one C call that never lets go of it and that no signal ends."""
    effect(ctx, "start")
    sample = 2_000_000
    began = time.thread_time()
    sum(itertools.repeat(1, sample))
    sum(itertools.repeat(1, int(payload["s"] * sample / (time.thread_time() - began))))
    effect(ctx, "end")


@job(timeout=0.5, retry=Retry(attempts=2, base=0.05, jitter=False))
def late(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    time.sleep(payload["s"])
    effect(ctx, "end")


@job(timeout=0.5, retry=Retry(attempts=1))
def late_and_deaf(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    until = time.monotonic() + payload["s"]
    while time.monotonic() < until:
        try:
            time.sleep(0.05)
        except BaseException:
            continue
    effect(ctx, "end")


@job(retry=Retry(attempts=3, base=0.05, jitter=False))
def raises(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    raise ValueError("a\0b \ud800 c")


@job(retry=Retry(attempts=1))
def exits(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    sys.exit(3)


@job(retry=Retry(attempts=5))
def vanishes(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    os._exit(payload.get("code", 9))


@job(retry=Retry(attempts=20, base=0.05, jitter=False))
def segfaults(payload: dict, ctx: Ctx) -> None:
    effect(ctx, "start")
    os.kill(os.getpid(), signal.SIGSEGV)


class _Explosive(dict):  # type: ignore[type-arg]
    def __del__(self) -> None:
        os._exit(5)


@job(retry=Retry(attempts=20, base=0.05, jitter=False))
def leaves_a_bomb(payload: dict, ctx: Ctx) -> dict:
    """Returns, and kills its process when the result is thrown away."""
    effect(ctx, "start")
    return _Explosive(a=1)


@job
def forks_a_daemon(payload: dict, ctx: Ctx) -> None:
    """Leaves a subprocess in its process group, and one that left the group and ends at once."""
    subprocess.Popen(["sleep", "60"])
    if os.fork() == 0:
        os.setsid()
        os._exit(7)
    effect(ctx, "end")


@job
def forks_and_comes_back_twice(payload: dict, ctx: Ctx) -> dict:
    """The copy ends as the payload says, and the original tells how it saw it end."""
    if (copy := os.fork()) == 0:
        if payload["by"] == "exit":
            sys.exit(3)
        if payload["by"] == "error":
            raise ValueError("in the copy")
        return {"from": "the copy"}
    return {"from": "the original", "copy": os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])}


@job(retry=Retry(attempts=1))
def raises_what_exits_when_read(payload: dict) -> None:
    raise ExitsWhenRead


class ExitsWhenRead(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


@job
def prints_garbage(payload: dict, ctx: Ctx) -> None:
    print("x" * payload.get("bytes", 100_000))
    sys.stdout.buffer.write(b"\xff\xfe\n")
    print("\ud800")
    effect(ctx, "end")


@job
def takes_standard_output_away(payload: dict, ctx: Ctx) -> None:
    sys.stdout = sys.stderr = None
    effect(ctx, "end")


@job
def enqueues_more(payload: dict, ctx: Ctx) -> None:
    answer.enqueue({"n": payload.get("n", 0)})
    effect(ctx, "end")
