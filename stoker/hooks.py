"""`@preload`, `@on_start`, `@on_stop`, `@middleware`: the application's code around its jobs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from stoker import logs, registry
from stoker.context import Ctx
from stoker.errors import JobDeclarationInvalid
from stoker.registry import Hook, Registry

H = TypeVar("H", bound=Hook)
M = TypeVar("M", bound=Callable[[Ctx], Iterator[None]])
RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]

_log = logs.get("hooks")


def preload(fn: H) -> H:
    """Run this once, after the application was imported and before any worker is forked: load models and tables here.

    What it loads is shared by all workers, copy-on-write. It takes no arguments and is no coroutine function; it must
    leave no thread running and no connection open. If it raises, nothing starts; at a reload the old code goes on.
    """
    if inspect.iscoroutinefunction(fn):
        raise _refuse(fn, "preload", "it is async, and no event loop survives the fork; use a plain function")
    registry.current().add_preload(_checked_hook(fn, "preload"))
    return fn


def on_start(fn: H) -> H:
    """Run this in every worker process after it was forked and before its first job: open pools and clients here.

    It takes no arguments and may be `async def`. If it raises, the worker does not become ready.
    """
    registry.current().add_on_start(_checked_hook(fn, "on_start"))
    return fn


def on_stop(fn: H) -> H:
    """Run this in every worker process after its last job, last declared first; what it raises is logged."""
    registry.current().add_on_stop(_checked_hook(fn, "on_stop"))
    return fn


def middleware(fn: M) -> M:
    """Wrap every run in a generator with one `yield`, as for contextlib.contextmanager; sync and async handlers alike.

        @middleware
        def timed(ctx: Ctx) -> Iterator[None]:
            started = time.monotonic()
            yield
            ctx.logger.info("took %.3f s", time.monotonic() - started)

    What the handler raises comes out of the `yield`; use try/finally to clean up. Swallowing it makes the run succeed
    with the result None. The first one declared is the outermost. Around an async handler it must not block.
    """
    is_generator = inspect.isgeneratorfunction(fn)
    if not is_generator or len(inspect.signature(fn).parameters) != 1:
        raise _refuse(fn, "middleware", "it is no plain generator function of one argument, the ctx, with one `yield`")
    registry.current().add_middleware(fn)
    return fn


def run_start_hooks(declared: Registry, *, run_coroutine: RunCoroutine) -> None:
    """Run the start hooks in order; what one raises ends it. `run_coroutine` gets those that are async."""
    for hook in declared.on_start:
        _run(hook, run_coroutine)


def run_stop_hooks(declared: Registry, *, run_coroutine: RunCoroutine) -> None:
    """Run all stop hooks, last declared first; what one raises is logged and stops no other."""
    for hook in reversed(declared.on_stop):
        try:
            _run(hook, run_coroutine)
        except Exception as error:  # noqa: BLE001  (the other pools want to be closed too)
            _log.warning("hook.failed", exc_info=error, hook=registry.place(hook))


def _run(hook: Hook, run_coroutine: RunCoroutine) -> None:
    outcome = hook()
    if inspect.iscoroutine(outcome):
        run_coroutine(outcome)


def _checked_hook(fn: H, kind: str) -> H:
    if not inspect.isfunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise _refuse(fn, kind, "it is no plain function")
    if any(parameter.default is parameter.empty for parameter in inspect.signature(fn).parameters.values()):
        raise _refuse(fn, kind, "it takes no arguments")
    return fn


def _refuse(fn: Any, kind: str, problem: str) -> JobDeclarationInvalid:
    return JobDeclarationInvalid(name=getattr(fn, "__name__", repr(fn)), argument=kind, problem=problem)
