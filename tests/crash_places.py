"""An application whose worker dies at a step of Stoker's or of the job's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from stoker import Ctx, Retry, job, on_start
from stoker.drivers.calls import Call
from stoker.drivers.postgres import PostgresDriver
from stoker.sql import statement
from tests import bombs
from tests.short_jobs import perform

_BY_LEASE = tuple(map(statement, ("claim_batch", "claim_suspect")))
_CLAIMS = (*_BY_LEASE, statement("lock_batch"))
_ENDINGS = tuple(map(statement, ("settle_done", "finish_locked")))
_AGAIN = Retry(attempts=20, base=0.05, jitter=False)
_worker: list[int] = []


@on_start
def become_a_worker() -> None:
    _worker[:] = [os.getpid()]


def strike(place: str) -> None:
    """The keeper uses the same driver and goes on."""
    if _worker == [os.getpid()]:
        bombs.strike(place)


class Told(msgspec.Struct):
    """A payload that may end its process while it is decoded."""

    do: str = "nothing"
    s: float = 0.0

    def __post_init__(self) -> None:
        strike("payload decode")


def run(payload: Told, ctx: Ctx) -> None:
    perform(msgspec.to_builtins(payload), ctx)
    strike("in the handler")


@job(retry=_AGAIN)
def locked(payload: Told, ctx: Ctx) -> None:
    run(payload, ctx)


@job(retry=_AGAIN, lease=True)
def only_leased(payload: Told, ctx: Ctx) -> None:
    run(payload, ctx)


_pipelined = PostgresDriver.pipelined


def pipelined(self: PostgresDriver, sent: Sequence[Call[Any]]) -> list[Any]:
    """What a worker sends in one round trip, and where it may die of it."""
    ends = any(call.statement in _ENDINGS for call in sent)
    claims, by_lease = sent[-1].statement in _CLAIMS, sent[-1].statement in _BY_LEASE
    if ends:
        strike("before settle")
        answers = _pipelined(self, sent)
        strike("after settle")
        return answers
    if by_lease:
        self.conn.execute("begin")
    answers = _pipelined(self, sent)
    if claims and answers[-1]:
        strike("before the claim is durable")
    if by_lease:
        self.conn.execute("commit")
    return answers


PostgresDriver.pipelined = pipelined  # type: ignore[method-assign]
