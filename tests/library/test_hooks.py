"""Hooks and the registry they are declared in."""

import asyncio
import runpy
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker import Ctx, job, middleware, on_start, on_stop, preload, registry
from stoker.application import describe, preload_application
from stoker.errors import CONFIG, JobDeclarationInvalid, PreloadFailed
from stoker.hooks import run_start_hooks, run_stop_hooks
from stoker.registry import Registry


def test_start_hooks_run_in_order_and_stop_hooks_backwards(declared: Registry) -> None:
    calls: list[str] = []
    on_start(lambda: calls.append("start 1"))

    @on_start
    async def start_later() -> None:
        await asyncio.sleep(0)
        calls.append("start 2")

    @on_stop
    async def stop_later() -> None:
        await asyncio.sleep(0)
        calls.append("stop 1")

    on_stop(lambda: calls.append("stop 2"))
    run_start_hooks(declared, run_coroutine=asyncio.run)
    run_stop_hooks(declared, run_coroutine=asyncio.run)
    assert calls == ["start 1", "start 2", "stop 2", "stop 1"]


def test_async_hooks_run_where_the_caller_wants(declared: Registry) -> None:
    loops: list[Any] = []

    @on_start
    async def start_later() -> None:
        loops.append(asyncio.get_running_loop())

    with asyncio.Runner() as runner:
        run_start_hooks(declared, run_coroutine=runner.run)
        assert loops == [runner.get_loop()]


def test_a_start_hook_that_fails_stops_the_start(declared: Registry) -> None:
    calls: list[int] = []
    on_start(lambda: 1 / 0)
    on_start(lambda: calls.append(1))
    with pytest.raises(ZeroDivisionError):
        run_start_hooks(declared, run_coroutine=asyncio.run)
    assert calls == []


def test_a_stop_hook_that_fails_stops_no_other(declared: Registry, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    on_stop(lambda: calls.append(1))
    on_stop(lambda: 1 / 0)
    run_stop_hooks(declared, run_coroutine=asyncio.run)
    assert calls == [1]
    assert "hook.failed" in caplog.text and "ZeroDivisionError" in caplog.text


def test_a_hook_is_still_its_function() -> None:
    def start() -> int:
        return 3

    assert preload(start) is start
    assert on_start(start) is start
    assert on_stop(start) is start
    assert middleware(_through) is _through


def _through(ctx: Ctx) -> Iterator[None]:
    yield


def _plain(ctx: Ctx) -> None: ...


async def _asynchronous(ctx: Ctx) -> Any:
    yield


def _without_ctx() -> Iterator[None]:
    yield


@pytest.mark.parametrize("wrong", [_plain, _asynchronous, _without_ctx, 3])
def test_middleware_is_a_generator_function_of_the_context(wrong: Any) -> None:
    with pytest.raises(JobDeclarationInvalid, match="middleware"):
        middleware(wrong)


@pytest.mark.parametrize("wrong", [_plain, _through, _without_ctx, print, None])
def test_a_hook_is_a_function_without_arguments(wrong: Any) -> None:
    for declare in (preload, on_start, on_stop):
        with pytest.raises(JobDeclarationInvalid, match=declare.__name__):
            declare(wrong)


def test_what_is_imported_twice_is_declared_once(declared: Registry, tmp_path: Path) -> None:
    source = tmp_path / "app.py"
    source.write_text(
        "from stoker import job, middleware, on_start, preload\n"
        "@preload\ndef load(): ...\n"
        "@on_start\ndef start(): ...\n"
        "@middleware\ndef around(ctx): yield\n"
        "@job\ndef work(payload): ...\n"
    )
    modules = [runpy.run_path(str(source), run_name=name) for name in ("app", "__main__")]
    assert declared.preload == (modules[1]["load"],)
    assert declared.on_start == (modules[1]["start"],)
    assert declared.middleware == (modules[1]["around"],)
    assert list(declared.jobs.values()) == [modules[1]["work"]]


def test_hooks_from_one_factory_are_different_hooks(declared: Registry) -> None:
    opened: list[str] = []

    def pool(name: str) -> None:
        @on_start
        def open_pool() -> None:
            opened.append(name)

    pool("a")
    pool("b")
    run_start_hooks(declared, run_coroutine=asyncio.run)
    assert opened == ["a", "b"]


def test_declarations_go_to_the_registry_in_use(declared: Registry) -> None:
    with registry.use(Registry()) as other:
        assert registry.current() is other

        @job
        def work(payload: dict[str, Any]) -> None: ...

    assert registry.current() is declared
    assert (other.names(), declared.names()) == (["work"], [])
    assert declared.get("work") is None


def test_preload_hooks_run_in_order_and_once(declared: Registry) -> None:
    calls: list[int] = []
    preload(lambda: calls.append(1))
    preload(lambda: calls.append(2))
    assert preload_application(declared) == 2
    assert preload_application(declared) == 0
    preload(lambda: calls.append(3))
    assert preload_application(declared) == 1
    assert calls == [1, 2, 3]


def test_a_preload_hook_cannot_be_async() -> None:
    with pytest.raises(JobDeclarationInvalid, match=r"'load' .* 'preload': it is async, and no event loop survives"):

        @preload
        async def load() -> None: ...


def test_a_preload_hook_that_fails_says_which_and_why_and_is_tried_again(declared: Registry) -> None:
    luck: list[int] = []

    @preload
    def load() -> None:
        assert luck, "no luck"

    with pytest.raises(PreloadFailed, match=r"test_hooks\..*load \(.*test_hooks.py:\d+\) failed: .*no luck") as failed:
        preload_application(declared)
    assert failed.value.exit_code == CONFIG
    first, *where = describe(failed.value).splitlines()
    assert "Fix:" in first
    assert any("in load" in line for line in where)
    assert not any("application.py" in line for line in where)
    luck.append(1)
    assert preload_application(declared) == 1


async def _loads() -> None: ...


def _exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(("hook", "said"), [(lambda: _loads(), "returned a coroutine"), (_exits, "SystemExit: 3")])
def test_a_preload_hook_that_wants_a_loop_or_exits_is_refused(declared: Registry, hook: Any, said: str) -> None:
    preload(hook)
    with pytest.raises(PreloadFailed, match=said):
        preload_application(declared)


def test_a_preload_hook_that_leaves_threads_is_refused_by_name(declared: Registry) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="pump", daemon=True)

    @preload
    def start() -> None:
        thread.start()

    try:
        with pytest.raises(PreloadFailed, match=r"it leaves threads \(pump\).*@on_start"):
            preload_application(declared)
    finally:
        stop.set()
        thread.join()
