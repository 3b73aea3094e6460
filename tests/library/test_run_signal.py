"""The run signal: first told, all reasons kept, nobody blocked."""

import asyncio
import logging
import threading
import time
from functools import partial

import pytest

from stoker import Aborted, RunSignal
from stoker.run_signal import Reason, strongest
from tests.support import HANGS_S, until


def test_a_fresh_signal_is_silent() -> None:
    signal = RunSignal()
    assert (signal.aborted, signal.reason, signal.reasons) == (False, None, ())
    signal.raise_if_aborted()
    assert signal.wait(0) is False


def test_all_reasons_are_kept_and_the_strongest_decides() -> None:
    signal = RunSignal()
    reasons: list[Reason] = ["drain", "timeout", "drain", "cancel", "lease_lost"]
    strongest_so_far = []
    for reason in reasons:
        signal.abort(reason)
        strongest_so_far.append(signal.reason)
    assert strongest_so_far == ["drain", "timeout", "timeout", "cancel", "lease_lost"]
    assert signal.reasons == ("drain", "timeout", "cancel", "lease_lost")


def test_raise_if_aborted_is_no_exception_a_handler_swallows() -> None:
    signal = RunSignal()
    signal.abort("drain")
    with pytest.raises(Aborted, match="drain") as caught:
        signal.raise_if_aborted()
    assert not isinstance(caught.value, Exception)


def test_wait_ends_with_its_time() -> None:
    signal = RunSignal()
    started = time.monotonic()
    assert signal.wait(0.05) is False
    assert time.monotonic() - started >= 0.05


def test_many_threads_wait_for_one_abort() -> None:
    signal = RunSignal()
    seen: list[bool] = []
    threads = [threading.Thread(target=lambda: seen.append(signal.wait(10))) for _ in range(8)]
    for thread in threads:
        thread.start()
    signal.abort("cancel")
    for thread in threads:
        thread.join(5)
    assert seen == [True] * 8


def test_wait_after_the_abort_returns_at_once() -> None:
    signal = RunSignal()
    signal.abort("drain")
    assert signal.wait() is True
    assert signal.wait(0) is True


def test_waits_that_timed_out_leave_nothing_behind() -> None:
    signal = RunSignal()
    for _ in range(100):
        signal.wait(0.0001)
    assert len(signal._listeners) == 0


def test_listeners_are_called_once() -> None:
    signal = RunSignal()
    calls: list[str] = []
    signal.on_abort(lambda: calls.append("before"))
    signal.abort("drain")
    signal.abort("cancel")
    signal.on_abort(lambda: calls.append("after"))
    assert calls == ["before", "after"]


@pytest.mark.parametrize("trial", range(20))
def test_listeners_are_called_once_under_fire(trial: int) -> None:
    signal, calls = RunSignal(), list[int]()
    threads = [threading.Thread(target=signal.abort, args=("drain",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        signal.on_abort(partial(calls.append, number))
    for thread in threads:
        thread.join()
    assert sorted(calls) == list(range(20))


def test_a_broken_listener_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    signal = RunSignal()
    calls: list[int] = []
    signal.on_abort(lambda: 1 / 0)
    signal.on_abort(lambda: calls.append(1))
    with caplog.at_level(logging.WARNING):
        signal.abort("drain")
    assert calls == [1]
    assert "run.listener_failed" in caplog.text


def test_coroutines_wait_without_a_thread() -> None:
    async def scenario() -> tuple[bool, int]:
        signal = RunSignal()
        waiting = asyncio.create_task(signal.wait_async())
        await asyncio.sleep(0)
        threads = threading.active_count()
        threading.Timer(0.01, signal.abort, ["drain"]).start()
        return await asyncio.wait_for(waiting, HANGS_S), threads

    before = threading.active_count()
    told, during = asyncio.run(scenario())
    assert told and during <= before
    until(lambda: threading.active_count() <= before)


def test_coroutines_wait_no_longer_than_asked() -> None:
    signal = RunSignal()
    assert asyncio.run(signal.wait_async(0.01)) is False
    assert len(signal._listeners) == 0
    signal.abort("drain")
    assert asyncio.run(signal.wait_async()) is True


def test_a_cancelled_waiter_is_forgotten() -> None:
    async def scenario() -> RunSignal:
        signal = RunSignal()
        waiting = asyncio.create_task(signal.wait_async())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return signal

    assert len(asyncio.run(scenario())._listeners) == 0


def test_a_loop_that_is_gone_does_not_disturb_the_abort() -> None:
    signal, calls = RunSignal(), list[int]()
    loop = asyncio.new_event_loop()
    waiting = signal.wait_async()
    task = loop.create_task(waiting)
    loop.run_until_complete(asyncio.sleep(0))
    signal.on_abort(lambda: calls.append(1))
    reachable, loop.call_soon_threadsafe = loop.call_soon_threadsafe, _closed  # type: ignore
    signal.abort("drain")
    assert calls == [1]
    loop.call_soon_threadsafe = reachable  # type: ignore[method-assign]
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


def _closed(*_: object) -> None:
    raise RuntimeError("Event loop is closed")


def test_a_closed_signal_calls_nobody() -> None:
    signal, calls = RunSignal(), list[int]()
    signal.on_abort(lambda: calls.append(1))
    signal.close()
    signal.abort("drain")
    assert (signal.aborted, calls) == (True, [])


def test_strongest_of_none_is_none() -> None:
    assert strongest(()) is None
