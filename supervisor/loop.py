"""The one loop: wait for events, note them in the ledger, ask the policy, act."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stoker import logs
from stoker.errors import Draining
from stoker.settings import Settings, resolve_runtime_dir
from supervisor import actions, capacity, policy
from supervisor.announcing import Announcer
from supervisor.arrivals import Arrivals
from supervisor.backoff import SHORTAGE_NS
from supervisor.drain import Request
from supervisor.fork_client import ForkClient
from supervisor.forkers import Forkers
from supervisor.hands import Hands
from supervisor.health import open_health
from supervisor.host_lock import HostLock
from supervisor.house import House
from supervisor.inbox import Inbox
from supervisor.launching import COMMAND, Launched
from supervisor.notify import Notifier
from supervisor.observing import look_at, with_stack
from supervisor.orders import Orders
from supervisor.records import Seat
from supervisor.signals import SignalPipe
from supervisor.teardown import Teardown
from supervisor.terminal import Terminal
from worker_proc.linux import become_subreaper

log = logs.get("supervisor")

LOOK_EVERY_NS = 500_000_000
AWAY_NS = 3_000_000_000
FORKERS_END_S = 1.0


class Supervisor:
    """Keeps the children that the settings ask for alive until it is told to stop.

    `run` returns the exit code and may be called again afterwards: everything about a run is built fresh for it.
    `memory_events` is where the kernel counts its OOM kills, if not in the file of this process's control group.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        reread: Callable[[], Settings] | None = None,
        server_command: Sequence[str] = COMMAND,
        early: Launched | None = None,
        memory_events: Path | None = None,
    ) -> None:
        self._settings = settings
        self._reread = reread
        self._command = server_command
        self._early = early
        self._memory_events = memory_events
        self._signals: SignalPipe | None = None

    def stop(self) -> None:
        """Ask for a manual stop: no deadline, nothing is aborted. From any thread; twice is once."""
        if self._signals:
            self._signals.put(signal.SIGQUIT)

    def run(self) -> int:
        """Supervise until stopped. Main thread only. Raises Draining while another run is not over."""
        if self._signals:
            raise Draining(what="This supervisor")
        capacity.check(self._settings)
        become_subreaper()
        terminal = Terminal()
        self._signals = SignalPipe()
        self._signals.install()
        try:
            with contextlib.ExitStack() as stack:
                lock = HostLock(resolve_runtime_dir(self._settings))
                house = House(self._settings, lock=lock, memory_events=self._memory_events)
                stack.callback(house.close)
                notifier = Notifier()
                stack.callback(notifier.close)
                if self._settings.health:
                    stack.callback(open_health(house, self._settings.health).close)
                run = _Run(
                    house, self._signals, notifier, terminal, self._reread, command=self._command, early=self._early
                )
                self._early = None
                return run.to_the_end()
        finally:
            self._signals.close()
            self._signals = None


class _Run:
    def __init__(
        self,
        house: House,
        signals: SignalPipe,
        notifier: Notifier,
        terminal: Terminal,
        reread: Callable[[], Settings] | None,
        *,
        command: Sequence[str],
        early: Launched | None,
    ) -> None:
        self._house = house
        self._signals = signals
        self._inbox = Inbox(house)
        self._hands = Hands(house, on_message=self._inbox.take)
        self._inbox.hands = self._hands
        self._teardown = Teardown(house, self._hands)
        self._arrivals = Arrivals(house, self._hands)
        self._forkers = Forkers(
            house, on_reply=self._arrivals.reply, on_unborn=self._arrivals.unborn, command=command, early=early
        )
        self._announcer = Announcer(house, notifier)
        self._notifier = notifier
        self._orders = Orders(
            house,
            teardown=self._teardown,
            forkers=self._forkers,
            announcer=self._announcer,
            terminal=terminal,
            reread=reread or (lambda: house.settings),
        )
        self._look_at = 0
        self._turned_at = time.monotonic_ns()
        self._may_kill_at = 0
        house.selector.register(signals, 1, lambda: None)

    def to_the_end(self) -> int:
        """Turn until the drain is through; nothing of ours is left afterwards."""
        log.event("supervisor.started", pid=os.getpid(), queues=sorted(self._house.settings.queues))
        # Before anybody is reaped: should a server that was started ahead have ended, it must be known as ours.
        self._forkers.look_after(time.monotonic_ns())
        # Should this raise, the fork servers see our end and end the children; they must not be ended first.
        while not self._turn():
            self._wait()
        code = self._teardown.finish()
        self._end_forkers()
        self._hands.close()
        return code

    def _turn(self) -> bool:
        for number in self._signals.take():
            self._orders.obey(number)
        self._arrivals.collect(self._forkers)
        self._orders.follow_up()
        now = time.monotonic_ns()
        self._notice_absence(now)
        self._look(now)
        self._forkers.look_after(now)
        for action in policy.next_actions(
            self._house.ledger,
            now,
            limits=self._house.limits,
            stopping=self._house.drain.stopping,
            may_kill=now >= self._may_kill_at,
            may_fork=self._forkers.serving is not None,
            keeps_lease=self._teardown.keeps_lease,
        ):
            self._act(action)
        self._tell_keeper()
        done = self._teardown.step(time.monotonic_ns())
        self._house.forking = self._forkers.serving is not None
        self._house.publish()
        self._announcer.look(now, importing=self._forkers.coming is not None)
        return done

    def _wait(self) -> None:
        # Seen from the moment the turn looked at: what became due since then is due at once.
        seen_from = self._turned_at
        ledger, stopping = self._house.ledger, self._house.drain.stopping
        # Decisions that are due are made on a fresh look, never on an old one.
        if due := policy.next_look(ledger, seen_from, limits=self._house.limits, stopping=stopping):
            self._look_at = min(self._look_at, due)
        times = [self._look_at, self._teardown.next_look(seen_from), self._notifier.next_look()]
        times += [] if stopping else [self._forkers.next_look()]
        wake_at = min(time for time in times if time is not None)
        for key, _ in self._house.selector.select(max(0, wake_at - time.monotonic_ns()) / 1e9):
            key.data()

    def _notice_absence(self, now: int) -> None:
        # After a long absence (suspend, SIGSTOP) what we remember of the others is old; they get a moment to be seen.
        if now - self._turned_at > AWAY_NS:
            self._may_kill_at = now + AWAY_NS
            log.warning("loop.was_away", seconds=round((now - self._turned_at) / 1e9, 1))
        self._turned_at = now

    def _look(self, now: int) -> None:
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_NS
        self._house.oom.look(now)
        for child in self._house.ledger.children.values():
            child.look = look_at(child, self._house.place(child), now)
            if child.asked:
                child.look = with_stack(child.look, self._hands.stack_bytes(child), now)
        for seat in self._house.ledger.seats:
            seat.last_ready_at = now if seat.is_ready else seat.last_ready_at

    def _act(self, action: actions.Action) -> None:
        match action:
            case actions.Spawn(seat=seat):
                if forker := self._forkers.serving:
                    self._spawn(seat, forker)
            case actions.Ask(child=child, kill=kill):
                self._hands.ask(child, kill)
            case actions.Spare(child=child):
                self._hands.spare(child)
            case actions.End(child=child, kill=kill):
                self._hands.end(child, kill)
            case actions.Retire(child=child, why=why):
                self._inbox.retire(child, why)
            case actions.GiveUp(code=code, why=why):
                self._house.exit_code = code
                line, _, where = why.partition("\n")
                facts: dict[str, Any] = {"where": where} if where else {}
                log.error("supervisor.gives_up", exit=code, reason=line, **facts)
                self._teardown.request(Request.TERMINATE, line)

    def _spawn(self, seat: Seat, forker: ForkClient) -> None:
        try:
            self._hands.spawn(seat, forker)
        except OSError as error:
            # Out of descriptors or memory: it may pass, and nobody else has to suffer.
            seat.retry_at = time.monotonic_ns() + SHORTAGE_NS
            log.error("child.not_forked", child=seat.name, error=str(error))

    def _tell_keeper(self) -> None:
        if keeper := self._house.ledger.keeper():
            for notice in self._house.notices.untold(keeper.claim_no):
                self._hands.tell(keeper, notice)

    def _end_forkers(self) -> None:
        self._forkers.close()
        deadline = time.monotonic() + FORKERS_END_S
        while self._forkers.pids and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._house.selector.select(left):
                key.data()
            self._signals.take()
            self._arrivals.collect(self._forkers)
        self._forkers.kill()
        while self._forkers.pids:
            self._house.selector.select(FORKERS_END_S)
            self._signals.take()
            self._arrivals.collect(self._forkers)
