"""Short jobs of one name, so that a worker holds any of them by its row lock alone; a payload says what one does."""

import itertools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg

import stoker
from stoker import Ctx, Retry, job, on_start
from stoker.errors import JobDuplicate, JobNotCancellable, JobNotFound, JobNotRetryable
from stoker.settings import load
from tests import effects
from worker_proc import batching, clerk

# What a busy machine adds to a run must not make these names long ones.
batching.SHORT_S = batching.TARGET_S  # type: ignore[misc]
# How many times longer than usual a row lock lives before it becomes a lease, for tests of what a lock is.
_PATIENCE = int(os.environ.get("TEST_PATIENCE", "1"))
if _PATIENCE > 1:
    batching.SHORT_S *= _PATIENCE  # type: ignore[misc]
    clerk.OLD_NS *= _PATIENCE  # type: ignore[misc]
    _usual = batching.Batching.patience
    batching.Batching.patience = lambda self, name: _PATIENCE * _usual(self, name)  # type: ignore[method-assign]
# Whoever waits for a lock is told so before a row lock would have become a lease.
_IMPATIENT = f"set lock_timeout = '{10 * _PATIENCE}ms'; set statement_timeout = '5s'"
_GENTLE = Retry(attempts=20, base=0.05, jitter=False)
_connection: list[psycopg.Connection[Any]] = []


def side() -> psycopg.Connection[Any]:
    """A connection of the application's own, on which waiting for a lock is an error."""
    if not _connection or _connection[0].closed:
        # The way there must not go through a proxy that a test breaks.
        url = os.environ.get("TEST_SIDE_TABLE") or load().database_url or ""
        _connection[:] = [psycopg.connect(url, autocommit=True)]
        _connection[0].execute(_IMPATIENT)
    return _connection[0]


@on_start
def connect() -> None:
    side()


def effect(ctx: Ctx, what: str) -> None:
    effects.note(ctx.job_id, ctx.attempt, what)


def hold_on(ctx: Ctx) -> str:
    """How the row of the executing job is held: `locked` (ready, and nobody gets it), `leased`, or what must not be."""
    cursor = side().execute(
        f"select id from stoker.jobs where id = {ctx.job_id} for update skip locked;"
        f" select state, run_no from stoker.jobs where id = {ctx.job_id}"
    )
    free = cursor.fetchone() is not None
    cursor.nextset()
    row = cursor.fetchone()
    if row == ("running", _number(ctx)):
        # Also when it is locked: a claim of another worker that began before this lease was written locks the row,
        # sees that it came too late and keeps the lock until its own transaction ends.
        return "leased"
    return "locked" if row == ("ready", _number(ctx) - 1) and not free else f"{'free' if free else 'locked'}, but {row}"


def _number(ctx: Ctx) -> int:
    # Reading ctx.run_no would lease the row.
    return ctx._claimed.run_no


def nothing(payload: dict, ctx: Ctx) -> None:
    """Just ends."""


def answer(payload: dict, ctx: Ctx) -> Any:
    return payload["answer"]


def look(payload: dict, ctx: Ctx) -> None:
    effect(ctx, hold_on(ctx))


def number(payload: dict, ctx: Ctx) -> None:
    """Reads its fencing token and sees whether the row has it."""
    effect(ctx, hold_on(ctx))
    told = ctx.run_no
    row = side().execute("select state, run_no from stoker.jobs where id = %s", (ctx.job_id,)).fetchone()
    effect(ctx, "token" if row == ("running", told) else f"token {told}, but {row}")


def extend(payload: dict, ctx: Ctx) -> None:
    """Asks for more time and sees how its row is held then."""
    effect(ctx, hold_on(ctx))
    ctx.extend(600)
    row = side().execute("select state, run_no from stoker.jobs where id = %s", (ctx.job_id,)).fetchone()
    effect(ctx, "extended" if row == ("running", _number(ctx)) else f"extended, but {row}")


def hold(payload: dict, ctx: Ctx) -> None:
    """Goes on until the test releases it."""
    effect(ctx, hold_on(ctx))
    effect(ctx, f"run {_number(ctx)}")
    while not effects.released(ctx.job_id):
        time.sleep(0.01)


def nap(payload: dict, ctx: Ctx) -> None:
    time.sleep(payload["s"])


def gil(payload: dict, ctx: Ctx) -> None:
    """One C call that no thread of this process runs beside and no signal ends, in the first of its attempts."""
    effect(ctx, hold_on(ctx))
    if ctx.attempt > payload.get("attempts", 100):
        return
    sample = 1_000_000
    began = time.thread_time()
    sum(itertools.repeat(1, sample))
    sum(itertools.repeat(1, int(payload["s"] * sample / (time.thread_time() - began))))


def fail(payload: dict, ctx: Ctx) -> None:
    if ctx.attempt <= payload.get("attempts", 1):
        raise ValueError("as told")


def die(payload: dict, ctx: Ctx) -> None:
    """Kills its process, in each of its first attempts."""
    effect(ctx, hold_on(ctx))
    if ctx.attempt <= payload.get("attempts", 100):
        if payload.get("by") == "exit":
            os._exit(9)
        os.kill(os.getpid(), signal.SIGKILL)


def leave_a_daemon(payload: dict, ctx: Ctx) -> None:
    """A process that left group and session keeps everything open that its worker had."""
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    os.waitpid(child, 0)


def fork_and_ask(payload: dict, ctx: Ctx) -> None:
    """A copy of the worker reads the fencing token; the connection is not the copy's."""
    effect(ctx, hold_on(ctx))
    if (child := os.fork()) == 0:
        try:
            ctx.run_no  # noqa: B018
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def own_key(payload: dict, ctx: Ctx) -> None:
    """Enqueues under its own key."""
    effect(ctx, hold_on(ctx))
    try:
        key = f"{payload['keys']}{payload['at']}"
        twin = short.enqueue({}, conn=side(), idempotency_key=key, on_conflict=payload["rule"])
        effect(ctx, "same" if twin == ctx.job_id else f"job {twin}")
    except JobDuplicate:
        effect(ctx, "duplicate")


def cancel(payload: dict, ctx: Ctx) -> None:
    """Cancels itself or a neighbour."""
    effect(ctx, hold_on(ctx))
    try:
        effect(ctx, stoker.cancel(ctx.job_id + payload["offset"], "by a job", conn=side()))
    except JobNotCancellable:
        effect(ctx, "ended")
    if payload.get("fails"):
        raise ValueError("as told")


def ask(payload: dict, ctx: Ctx) -> None:
    """Looks at itself, retries itself, enqueues in a transaction."""
    effect(ctx, hold_on(ctx))
    view = stoker.get(ctx.job_id)
    effect(ctx, f"seen {view.state}" if view else "not seen")
    try:
        stoker.retry(ctx.job_id, conn=side())
    except (JobNotFound, JobNotRetryable):
        effect(ctx, "not retried")
    with side().transaction():
        twin = short.enqueue({"do": "nothing"}, conn=side())
    effect(ctx, f"child {twin}")
    short.enqueue({"do": "nothing"})


_DOINGS: dict[str, Callable[[dict, Ctx], Any]] = {
    doing.__name__: doing
    for doing in (
        *(nothing, answer, look, number, extend, hold, nap, gil, fail, die, leave_a_daemon, fork_and_ask),
        *(own_key, cancel, ask),
    )
}


def perform(payload: dict, ctx: Ctx) -> Any:
    effect(ctx, "start")
    value = _DOINGS[payload.get("do", "nothing")](payload, ctx)
    effect(ctx, "end")
    return value


@job(retry=_GENTLE)
def short(payload: dict, ctx: Ctx) -> Any:
    return perform(payload, ctx)


@job(retry=_GENTLE, lease=True)
def leased(payload: dict, ctx: Ctx) -> Any:
    return perform(payload, ctx)


@job(retry=_GENTLE, ack="each")
def each(payload: dict, ctx: Ctx) -> None:
    see_the_one_before(payload, ctx)


@job(retry=_GENTLE)
def together(payload: dict, ctx: Ctx) -> None:
    see_the_one_before(payload, ctx)


def see_the_one_before(payload: dict, ctx: Ctx) -> None:
    """Whether the last job of this process is written when this one starts."""
    effect(ctx, hold_on(ctx))
    if _before:
        unwritten = side().execute("select from stoker.jobs where id = %s", (_before.pop(),)).fetchone()
        effect(ctx, "written" if unwritten is None else "unwritten")
    _before.append(ctx.job_id)


_before: list[int] = []


@job(retry=Retry(attempts=1), timeout=1.0)
def limited(payload: dict, ctx: Ctx) -> Any:
    return perform(payload, ctx)
