"""Runs one body: decodes the payload, goes through the middleware, calls the handler, and says how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CoroutineType
from typing import Any, Protocol

from msgspec import Struct

from stoker.context import Ctx, running
from stoker.drivers.base import Claimed
from stoker.errors import JobDeclarationInvalid, StokerError
from stoker.job import Job
from stoker.registry import Registry


class Ended(Struct, frozen=True, gc=False):
    """How a body ended: it returned `value`, or it raised `error`."""

    returned: bool
    value: Any = None
    error: BaseException | None = None


class Gate(Protocol):
    """Open while application code runs: only then may a signal handler raise into this thread, and at most once."""

    def open(self) -> None:
        """From now on an interrupt may arrive at any bytecode."""

    def close(self) -> None:
        """From the return of this call on no interrupt arrives; calling it again is harmless."""


class NoGate:
    """Nobody interrupts."""

    def open(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


_NO_GATE = NoGate()
_PENDING: Any = object()


def run_sync(job: Job[..., Any], claimed: Claimed, ctx: Ctx, registry: Registry, *, gate: Gate = _NO_GATE) -> Ended:
    """Run the body of a plain function. Returns whatever happens: nothing a body can raise comes out of here.

    An interrupt that arrives when handler and middleware are already through changes nothing: the body has returned.
    """
    token = running.set(ctx)
    try:
        ctx.payload = payload = job.decode(claimed.payload)
    except Exception as error:  # noqa: BLE001  (it becomes the outcome)
        running.reset(token)
        return Ended(False, None, error)
    value, failure = _PENDING, None
    # Two layers, because the one interrupt may also arrive inside the inner except clause or before the gate is closed.
    try:
        try:
            gate.open()
            if registry.middleware:
                value = _call_wrapped(job, payload, ctx, registry)
            else:
                value = job.fn(payload, ctx) if job.takes_ctx else job.fn(payload)
        except BaseException as error:  # noqa: BLE001
            failure = error
        gate.close()
    except BaseException as late:  # noqa: BLE001
        gate.close()
        failure = failure or late
    running.reset(token)
    if isinstance(value, CoroutineType):
        value, failure = _PENDING, _never_ran(job, value)
    try:
        return Ended(False, None, failure) if value is _PENDING else Ended(True, value)
    finally:
        failure = None  # The error's traceback holds this frame: without a cycle both go at once.


async def run_async(job: Job[..., Any], claimed: Claimed, ctx: Ctx, registry: Registry) -> Ended:
    """Run the body of an `async def`. Nothing a body can raise comes out, not even the cancellation of its task."""
    token = running.set(ctx)
    try:
        ctx.payload = payload = job.decode(claimed.payload)
        if registry.middleware:
            value = None
            with _around(registry, ctx):
                value = await (job.fn(payload, ctx) if job.takes_ctx else job.fn(payload))
        else:
            value = await (job.fn(payload, ctx) if job.takes_ctx else job.fn(payload))
    except BaseException as error:  # noqa: BLE001  (it becomes the outcome)
        return Ended(False, None, error)
    finally:
        running.reset(token)
    return Ended(True, value)


def _never_ran(job: Job[..., Any], value: CoroutineType[Any, Any, Any]) -> StokerError:
    value.close()
    problem = "it returned a coroutine, which nobody ran; its outermost function must be an `async def`"
    return JobDeclarationInvalid(name=job.name, argument="handler", problem=problem)


def _call_wrapped(job: Job[..., Any], payload: Any, ctx: Ctx, registry: Registry) -> Any:
    with _around(registry, ctx):
        return job.fn(payload, ctx) if job.takes_ctx else job.fn(payload)
    return None  # A middleware swallowed what the handler raised.


@contextmanager
def _around(registry: Registry, ctx: Ctx) -> Iterator[None]:
    with ExitStack() as stack:
        for wrap in registry.middleware:
            stack.enter_context(contextmanager(wrap)(ctx))
        yield
