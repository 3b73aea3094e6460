"""The control thread of a child: messages, signals, beats, time limits on calls, and the end at the deadline."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from stoker import logs
from stoker.errors import FAILED, KILLED
from worker_proc.board import Board, Slot, SlotState, SlotWord
from worker_proc.channel import Channel, ChannelClosed
from worker_proc.messages import AcceptStopped, AnyMessage, Close, Message, Recycle, StopAccepting
from worker_proc.stack import dump_from_here

BEAT_NS: Final = 1_000_000_000
log = logs.get("control")

# The fork server kills what is left 3 s after the supervisor's death.
ORPHAN_NS: Final = 2_500_000_000
HURRY_NS: Final = 3_000_000_000


class Watched(Protocol):
    """What the control thread asks of the role it serves. All of it happens on the control thread."""

    leaves_on_signal: bool

    def on_message(self, message: AnyMessage) -> None:
        """A message that is not about stopping."""

    def on_stop(self) -> None:
        """The first request to stop just arrived, or a later one that aborts; never blocks."""

    def look(self, now_ns: int) -> int:
        """See to what is due; returns when to look again (CLOCK_MONOTONIC ns)."""


class Severable(Protocol):
    """Something that can be cut from another thread."""

    def sever(self) -> None:
        """Make whatever waits on it fail at once."""


@dataclass(slots=True, eq=False)
class _Limit:
    """A call in progress and when it is cut (CLOCK_MONOTONIC ns)."""

    by: int
    severable: Severable


class Control:
    """What the parent asked for, and the thread that hears it. Main reads the properties between any two steps."""

    def __init__(self, *, channel: Channel, board: Board, slot: Slot, event_fd: int, grace: float) -> None:
        self.board = board
        self.slot = slot
        self._channel = channel
        self._event_fd = event_fd
        self._grace_ns = int(grace * 1e9)
        self._signals, self._signalled = socket.socketpair()
        self._polls: dict[tuple[int, ...], select.poll] = {}
        self._poke = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Several threads may each be inside some.
        self._limits: set[_Limit] = set()
        self._role: Watched | None = None
        self.stop_reason = ""
        self.aborts = False
        self.told_to_close = False
        self.close_deadline = 0
        self.orphaned = False
        channel.setblocking(False)
        for end in (self._signals, self._signalled):
            end.setblocking(False)

    # What main asks

    @property
    def stopping(self) -> bool:
        """True once nothing new may be started."""
        return bool(self.stop_reason)

    def wait(self, seconds: float, fds: Sequence[int] = ()) -> list[int]:
        """Sleep until woken, at most `seconds`; returns which of `fds` are readable."""
        poll = self._poll_of(tuple(fds))
        ready = [fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)]
        if self._event_fd in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._event_fd)
        return [fd for fd in ready if fd != self._event_fd]

    def _poll_of(self, fds: tuple[int, ...]) -> select.poll:
        # Made once: what follows a wait is what a job waits for. A closed number that is opened anew is polled anew.
        if (poll := self._polls.get(fds)) is None:
            poll = self._polls[fds] = select.poll()
            for fd in (self._event_fd, *fds):
                poll.register(fd, select.POLLIN)
        return poll

    def wake_main(self) -> None:
        """End main's wait."""
        os.eventfd_write(self._event_fd, 1)

    def look_soon(self) -> None:
        """Have the control thread look at once: something main started needs an earlier look than it planned."""
        os.eventfd_write(self._poke, 1)

    def send(self, message: Message) -> None:
        """Tell the supervisor; a supervisor that is gone is noticed by the control thread."""
        with contextlib.suppress(ChannelClosed):
            self._channel.send(message)

    @contextlib.contextmanager
    def limit(self, severable: Severable, seconds: float) -> Iterator[None]:
        """Cut `severable` when the block takes longer than `seconds` (granularity: one beat); any thread."""
        limit = _Limit(time.monotonic_ns() + int(seconds * 1e9), severable)
        self._limits.add(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)

    # The thread

    def start(self, role: Watched) -> None:
        """Start the thread with every signal blocked, then take over TERM and QUIT. Main thread only."""
        self._role = role
        self.slot[SlotWord.BEAT] = time.monotonic_ns()
        start_thread(self._serve, "stoker-control")
        # The C-level handler writes the number to the wake-up descriptor even while main is deep in C code.
        signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, _heard_by_the_control_thread)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())

    def _serve(self) -> None:
        self.slot[SlotWord.CONTROL_TID] = dump_from_here()
        poll = select.poll()
        for source in (self._channel.fileno(), self._signals.fileno(), self._poke):
            poll.register(source, select.POLLIN)
        next_look = 0
        while True:
            now = time.monotonic_ns()
            due = min(next_look, self.slot[SlotWord.BEAT] + BEAT_NS, self.close_deadline or now + BEAT_NS)
            ready = {fd for fd, _ in poll.poll(max(0, due - now) / 1e6)}
            if self._channel.fileno() in ready and not self._hear():
                poll.unregister(self._channel.fileno())
            if self._signals.fileno() in ready:
                self._hear_signals()
            if self._poke in ready:
                os.eventfd_read(self._poke)
            next_look = self._tick(time.monotonic_ns())

    def _tick(self, now: int) -> int:
        assert self._role is not None
        if now >= self.slot[SlotWord.BEAT] + BEAT_NS:
            self.slot[SlotWord.BEAT] = now
        if self.close_deadline and now >= self.close_deadline:
            os._exit(KILLED)
        for limit in list(self._limits):
            if now >= limit.by:
                self._limits.discard(limit)
                limit.severable.sever()
        return self._role.look(now)

    def _hear(self) -> bool:
        try:
            while True:
                self._obey(self._channel.receive())
        except BlockingIOError:
            return True
        except ChannelClosed:
            self.orphaned = True
            self._stop("the supervisor is gone", aborts=True)
            self._close_by(time.monotonic_ns() + ORPHAN_NS)
            return False

    def _obey(self, message: AnyMessage) -> None:
        match message:
            case StopAccepting(reason=reason, signal=aborts):
                self._stop(reason, aborts=aborts)
            case Recycle():
                self._stop("recycle", aborts=False)
                self.told_to_close = True
            case Close(deadline_ns=deadline):
                self._stop("close", aborts=False)
                self._close_by(deadline)
            case _:
                assert self._role is not None
                self._role.on_message(message)

    def _hear_signals(self) -> None:
        assert self._role is not None
        leaves = self._role.leaves_on_signal
        for number in self._signals.recv(64):
            if number == signal.SIGTERM:
                self._stop("SIGTERM", aborts=True)
                self._close_by(time.monotonic_ns() + self._grace_ns if leaves else 0, leave=leaves)
            elif number == signal.SIGQUIT:
                self._stop("SIGQUIT", aborts=False)
                self._close_by(0, leave=leaves)

    def _stop(self, reason: str, *, aborts: bool) -> None:
        assert self._role is not None
        first = not self.stop_reason
        if first:
            self.stop_reason = reason
            self.slot[SlotWord.STATE] = SlotState.DRAINING
            self._hurry_call()
        if first or (aborts and not self.aborts):
            self.aborts = self.aborts or aborts
            self._role.on_stop()
            # A parent that does not read for so long is not waiting for this either.
            with contextlib.suppress(BlockingIOError):
                self.send(AcceptStopped(self.slot[SlotWord.IN_FLIGHT]))
        self.wake_main()

    def _hurry_call(self) -> None:
        """A call that hangs must not eat the time that is left for the rest of the drain."""
        latest = time.monotonic_ns() + HURRY_NS
        for limit in list(self._limits):
            limit.by = min(limit.by, latest)

    def _close_by(self, deadline: int, *, leave: bool = True) -> None:
        if deadline and (not self.close_deadline or deadline < self.close_deadline):
            self.close_deadline = deadline
        self.told_to_close = self.told_to_close or leave
        self.wake_main()


def start_thread(target: Callable[[], object], name: str) -> None:
    """Start a daemon thread that no signal is delivered to; if it fails, the process ends. Main thread only."""

    def run() -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - the process ends here, visibly
            # Nobody would hear a stop, or settle behind a long body: better a visible death than a half-dead child.
            log.error("thread.died", thread=name, error=repr(error), traceback=traceback.format_exc())
            os._exit(FAILED)

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(target=run, name=name, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _heard_by_the_control_thread(number: int, frame: object) -> None:
    """Python writes the number to the wake-up descriptor only for signals that have a Python handler."""
