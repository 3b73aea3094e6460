"""What a running body can read of its abort: one fresh signal per run, without a lock anybody could die holding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from stoker import logs
from stoker.errors import Aborted

Reason = Literal["lease_lost", "cancel", "timeout", "drain"]

PRECEDENCE: tuple[Reason, ...] = ("lease_lost", "cancel", "timeout", "drain")

_log = logs.get("run")


def strongest(reasons: tuple[Reason, ...]) -> Reason | None:
    """The reason that decides when there are several."""
    return next((reason for reason in PRECEDENCE if reason in reasons), None)


class RunSignal:
    """Tells one run that it should end, and why.

    A run aborted for several reasons keeps them all. Any thread may read, wait and abort; a signal handler may do
    neither. There is no shared lock: a body can be unwound at any bytecode in here without blocking who aborts it.
    """

    __slots__ = ("_listeners", "_reasons")

    def __init__(self) -> None:
        self._reasons: list[Reason] = []
        self._listeners: list[Callable[[], object]] = []

    @property
    def aborted(self) -> bool:
        """True once anybody wants this run to end; it never turns back."""
        return bool(self._reasons)

    @property
    def reason(self) -> Reason | None:
        """The strongest reason: lease_lost, cancel, timeout, drain, in this order."""
        return strongest(self.reasons)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """All reasons, in the order of their arrival."""
        return tuple(dict.fromkeys(self._reasons)) if self._reasons else ()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the run is aborted, at most `timeout` seconds; returns `aborted`."""
        if self._reasons or (timeout is not None and timeout <= 0):
            return self.aborted
        asleep = threading.Lock()
        asleep.acquire()
        self.on_abort(asleep.release)
        try:
            asleep.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        finally:
            self._forget(asleep.release)
        return self.aborted

    async def wait_async(self, timeout: float | None = None) -> bool:
        """Like `wait`, for coroutines: needs no thread."""
        import asyncio

        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(told.set)

        self.on_abort(tell)
        try:
            await asyncio.wait_for(told.wait(), timeout)
        except TimeoutError:
            return self.aborted
        finally:
            self._forget(tell)
        return True

    def raise_if_aborted(self) -> None:
        """Raise Aborted if the run should end; the worker then hands it back, cancels it or retries it."""
        if self._reasons:
            raise Aborted(reason=str(self.reason))

    def on_abort(self, fn: Callable[[], object]) -> None:
        """Call `fn` once when the run is aborted, at once if it is already.

        It runs in the thread that aborts, so it should only set something or close something. What it raises is logged.
        """
        self._listeners.append(fn)
        if self._reasons:
            self._tell_listeners()

    def abort(self, reason: Reason) -> None:
        """Ask the run to end. Callable from any thread, any number of times; not from a signal handler."""
        self._reasons.append(reason)
        self._tell_listeners()

    def close(self) -> tuple[Reason, ...]:
        """Hand the signal back when its run has ended: no listener is called any more. Returns all reasons."""
        if self._listeners:
            self._listeners.clear()
        return self.reasons if self._reasons else ()

    def _tell_listeners(self) -> None:
        while True:
            try:
                fn = self._listeners.pop(0)
            except IndexError:
                return
            try:
                fn()
            except Exception as error:  # noqa: BLE001  (one listener must not keep the news from the others)
                _log.warning("run.listener_failed", exc_info=error, listener=repr(fn))

    def _forget(self, fn: Callable[[], object]) -> None:
        try:
            self._listeners.remove(fn)
        except ValueError:
            return  # It was called.
