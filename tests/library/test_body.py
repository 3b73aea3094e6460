"""Running one body: whatever it raises is an outcome, and an interrupt at any bytecode changes nothing of that."""

import asyncio
import functools
import gc
import signal
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from stoker import Ctx, current_ctx, job, middleware
from stoker.body import Ended, run_async, run_sync
from stoker.errors import Aborted, Interrupted, JobDeclarationInvalid, PayloadInvalid
from stoker.registry import current
from tests.library.runs import claimed, context, run


@dataclass
class Order:
    id: int


def test_a_body_returns_its_value() -> None:
    @job
    def work(payload: dict[str, Any]) -> Any:
        return payload["n"] + 1

    assert run(work, {"n": 1}) == Ended(True, 2)


def test_a_body_gets_what_it_declares() -> None:
    @job
    def work(order: Order, ctx: Ctx) -> Any:
        assert current_ctx() is ctx
        return order, ctx.payload, ctx.job_id, ctx.attempt, ctx.max_attempts, ctx.queue, ctx.tenant, ctx.time_left()

    order = Order(5)
    assert run(work, {"id": 5}).value == (order, order, 41, 1, 20, "default", "acme", 12.5)
    assert current_ctx() is None


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(1), Aborted(reason="drain")],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_whatever_a_body_raises_is_an_outcome(error: BaseException, wrapped: bool) -> None:
    @job
    def work(payload: dict[str, Any]) -> None:
        raise error

    @job
    async def later(payload: dict[str, Any]) -> None:
        raise error

    if wrapped:
        middleware(_through)
    ended = run(work)
    assert (ended.returned, ended.error) == (False, error)
    assert current_ctx() is None
    if not isinstance(error, StopIteration):  # Python itself forbids it in a coroutine.
        assert _run_async(later).error is error


def test_a_payload_that_does_not_fit_is_an_outcome() -> None:
    @job
    def work(order: Order) -> None: ...

    @job
    async def later(order: Order) -> None: ...

    assert isinstance(run(work, {"id": "x"}).error, PayloadInvalid)
    assert isinstance(_run_async(later, {"id": "x"}).error, PayloadInvalid)
    assert current_ctx() is None


def test_a_coroutine_body() -> None:
    @job
    async def later(payload: dict[str, Any], ctx: Ctx) -> Any:
        await asyncio.sleep(0)
        assert current_ctx() is ctx
        return payload

    assert _run_async(later, {"n": 1}) == Ended(True, {"n": 1})


def test_a_coroutine_that_nobody_ran_is_no_success() -> None:
    def traced(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any) -> Any:
            return fn(*args)

        return inner

    @job
    @traced
    async def later(payload: dict[str, Any]) -> None: ...

    ended = run(later)
    assert not ended.returned and isinstance(ended.error, JobDeclarationInvalid)
    assert "outermost function" in str(ended.error)


def test_contexts_of_concurrent_coroutines_are_apart() -> None:
    @job
    async def later(payload: dict[str, Any], ctx: Ctx) -> Any:
        await asyncio.sleep(0.01)
        return current_ctx() is ctx

    async def scenario() -> list[Ended]:
        runs = [claimed() for _ in range(5)]
        return await asyncio.gather(*(run_async(later, one, context(one), current()) for one in runs))

    assert all(ended.value for ended in asyncio.run(scenario()))


def test_a_cancelled_task_is_an_outcome() -> None:
    cleaned = []

    @job
    async def later(payload: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    async def scenario() -> Ended:
        one = claimed()
        task = asyncio.create_task(run_async(later, one, context(one), current()))
        await asyncio.sleep(0.01)
        task.cancel()
        return await task

    ended = asyncio.run(scenario())
    assert isinstance(ended.error, asyncio.CancelledError)
    assert cleaned == [True]


# middleware


def _through(ctx: Ctx) -> Iterator[None]:
    yield


def test_middleware_goes_around_in_order() -> None:
    calls: list[str] = []

    @middleware
    def outer(ctx: Ctx) -> Iterator[None]:
        calls.append(f"outer {ctx.name}")
        yield
        calls.append("outer done")

    @middleware
    def inner(ctx: Ctx) -> Iterator[None]:
        calls.append("inner")
        yield
        calls.append("inner done")

    @job
    def work(payload: dict[str, Any]) -> str:
        calls.append("work")
        return "value"

    @job
    async def later(payload: dict[str, Any]) -> str:
        calls.append("work")
        return "value"

    order = ["outer work", "inner", "work", "inner done", "outer done"]
    assert run(work) == Ended(True, "value")
    assert calls == order
    calls.clear()
    assert _run_async(later) == Ended(True, "value")
    assert calls == ["outer later", *order[1:]]


def test_middleware_sees_what_the_handler_raises_and_may_change_it() -> None:
    @middleware
    def translating(ctx: Ctx) -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise ValueError("translated") from error
        except ZeroDivisionError:
            pass

    @job
    def missing(payload: dict[str, Any]) -> Any:
        return payload["n"]

    @job
    def dividing(payload: dict[str, Any]) -> Any:
        return 1 / 0

    assert isinstance(run(missing).error, ValueError)
    assert run(dividing) == Ended(True, None)


@pytest.mark.parametrize("when", ["before", "after"])
def test_middleware_that_fails_fails_the_run(when: str) -> None:
    @middleware
    def failing(ctx: Ctx) -> Iterator[None]:
        if when == "before":
            raise OSError("no pool")
        yield
        raise OSError("no commit")

    @job
    def work(payload: dict[str, Any]) -> str:
        return "value"

    ended = run(work)
    assert not ended.returned and isinstance(ended.error, OSError)


# interrupts


class Interrupter:
    """A gate through which a real signal raises once, at the n-th bytecode after it was opened."""

    def __init__(self, bytecode: int) -> None:
        self.countdown = bytecode
        self.is_open = False
        self.struck = False

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode" and self.is_open and not self.struck:
            self.countdown -= 1
            if self.countdown == 0:
                self.struck, self.is_open = True, False
                raise Interrupted(reason="timeout")
        return self.trace


def _interrupted(bytecode: int, body: Any) -> tuple[Ended, Interrupter]:
    gate, one = Interrupter(bytecode), claimed()
    ctx = context(one)
    before = sys.gettrace()
    gc.disable()  # An interrupt inside a finalizer would be swallowed there, as Python does with every exception.
    sys.settrace(gate.trace)
    try:
        ended = run_sync(body, one, ctx, current(), gate=gate)
    finally:
        sys.settrace(before)
        gc.enable()
    return ended, gate


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("raises", [False, True])
def test_an_interrupt_at_any_bytecode_is_an_outcome(wrapped: bool, raises: bool) -> None:
    @job
    def work(payload: dict[str, Any]) -> int:
        if raises:
            raise ValueError("own")
        return sum(n for n in range(2))

    if wrapped:
        middleware(_through)
    endings = set()
    for bytecode in range(1, 2_000):
        ended, gate = _interrupted(bytecode, work)
        assert not gate.is_open
        assert current_ctx() is None
        kind = "value" if ended.returned else type(ended.error).__name__
        assert (ended.value == 1) if ended.returned else ended.error is not None
        endings.add(kind)
        if not gate.struck:
            break
    assert not gate.struck, "the body has ended before the last of these bytecodes"
    assert endings == {"Interrupted", "ValueError" if raises else "value"}


def test_a_real_signal_strikes_a_busy_body() -> None:
    gate = Interrupter(0)

    def strike(number: int, frame: object) -> None:
        if gate.is_open:
            gate.close()
            raise Interrupted(reason="cancel")

    @job
    def work(payload: dict[str, Any]) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            pass

    before = signal.signal(signal.SIGALRM, strike)
    try:
        ended = run(work, gate=gate)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert isinstance(ended.error, Interrupted)


class Big:
    pass


def test_a_failed_body_is_freed_at_once() -> None:
    seen: list[weakref.ref[Big]] = []

    @job
    def work(payload: dict[str, Any]) -> None:
        big = Big()
        seen.append(weakref.ref(big))
        raise ValueError("no")

    gc.collect()
    gc.disable()
    try:
        run(work)
        assert seen[0]() is None
    finally:
        gc.enable()


def _run_async(declared: Any, payload: Any = None) -> Ended:
    one = claimed(payload, name=declared.name)
    return asyncio.run(run_async(declared, one, context(one), current()))
