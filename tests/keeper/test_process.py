"""A real keeper process, forked and living through run_child."""

import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.keeper.rig import Host, Queue, death
from tests.support import HANGS_S, fastest, until
from worker_proc.board import Phase, SlotState, SlotWord, Word
from worker_proc.channel import Channel, ChannelClosed
from worker_proc.child import run_child
from worker_proc.linux import boottime_ns
from worker_proc.messages import (
    AnyMessage,
    Booted,
    Close,
    Closed,
    ForkSpec,
    Lane,
    Ready,
    Reaped,
    Recycle,
    StopAccepting,
    WaitingForDatabase,
)

S = 1_000_000_000


class Process:
    """One keeper process of a host, and the supervisor's end of its pipe."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.supervisor, theirs = Channel.pair()
        host.keeper_slot.reset(generation=1, claim_no=host.claim_number())
        spec = ForkSpec(
            slot=0,
            role="keeper",
            title="stoker: keeper",
            offset=host.keeper_slot.offset,
            lanes=1,
            claim_no=host.keeper_slot[SlotWord.CLAIM_NO],
            generation=1,
            names=["job"],
            workers=host.refs,
        )
        event_fd = os.eventfd(0, os.EFD_NONBLOCK)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.supervisor.fileno())
            os.setpgid(0, 0)
            run_child(
                spec,
                control_fd=theirs.fileno(),
                stack_fd=os.memfd_create("stack"),
                event_fd=event_fd,
                wake_fds=host.wake_fds,
                board_fd=os.dup(host.board.fd),
                lock_fd=host.lock.fd,
                settings=host.settings,
            )
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        theirs.close()
        os.close(event_fd)
        self.supervisor.setblocking(False)
        self.said: list[AnyMessage] = []
        self.status: int | None = None

    def heard(self, kind: type[AnyMessage]) -> list[AnyMessage]:
        while True:
            try:
                self.said.append(self.supervisor.receive())
            except (BlockingIOError, ChannelClosed):
                return [message for message in self.said if isinstance(message, kind)]

    def exit_code(self, *, within: float = HANGS_S) -> int:
        def ended() -> bool:
            if self.status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.status = status if pid else None
            return self.status is not None

        until(ended, within=within)
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    def close(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.exit_code()
        self.supervisor.close()


@pytest.fixture
def start(host: Host) -> Iterator[Callable[[], Process]]:
    processes: list[Process] = []

    def fork() -> Process:
        processes.append(Process(host))
        return processes[-1]

    yield fork
    for process in processes:
        process.close()


@pytest.fixture
def keeper(start: Callable[[], Process]) -> Process:
    process = start()
    until(lambda: process.heard(Ready))
    return process


def test_it_boots_holds_the_lease_and_beats(keeper: Process, host: Host) -> None:
    assert [type(message) for message in keeper.said[:2]] == [Booted, Ready]
    assert host.keeper_slot[SlotWord.STATE] == SlotState.READY
    assert host.keeper_slot[SlotWord.PID] == keeper.pid
    assert host.board.lease_trusted(boottime_ns())
    beat = host.keeper_slot[SlotWord.BEAT]
    until(lambda: host.keeper_slot[SlotWord.BEAT] > beat)
    assert Path(f"/proc/{keeper.pid}/cmdline").read_bytes().startswith(b"stoker: keeper")


def test_a_death_is_settled_in_milliseconds(keeper: Process, host: Host, queue: Queue) -> None:
    claim_nos = itertools.count(101)

    def settled() -> float:
        claim_no = next(claim_nos)
        (job_id,) = queue.add(queue=str(claim_no))
        (run,) = queue.claim(host.id, claim_no, queue=str(claim_no))
        began = time.monotonic()
        keeper.supervisor.send(death(claim_no, "crash", Lane(run.id, run.run_no, "blamed")))
        until(lambda: Reaped(claim_no) in keeper.heard(Reaped))
        took = time.monotonic() - began
        assert queue.state(job_id) == "ready"
        return took

    fastest(lambda: median(settled() for _ in range(10)), below=0.1)


def test_a_drain_keeps_the_lease_and_close_ends_it(keeper: Process, host: Host, queue: Queue) -> None:
    host.board[Word.PHASE] = Phase.STOP_ACCEPTING
    keeper.supervisor.send(StopAccepting("SIGTERM", signal=True))
    renewals = queue.one("select renewals from stoker.hosts")
    until(lambda: queue.one("select renewals from stoker.hosts") >= renewals + 2)
    assert host.keeper_slot[SlotWord.STATE] == SlotState.DRAINING
    host.board[Word.PHASE] = Phase.CLOSING
    keeper.supervisor.send(Close(time.monotonic_ns() + 30 * S))
    assert keeper.exit_code(within=20) == 0
    assert keeper.heard(Closed) == [Closed(0, 0, 0)]
    assert queue.one("select count(*) from stoker.hosts") == 0


def test_a_killed_keeper_is_continued_by_the_next(
    keeper: Process, host: Host, queue: Queue, start: Callable[[], Process]
) -> None:
    host_id = host.id
    os.kill(keeper.pid, signal.SIGKILL)
    keeper.exit_code()
    successor = start()
    until(lambda: successor.heard(Ready))
    until(lambda: host.board[Word.TRUSTED_UNTIL] > boottime_ns() + 20 * S)
    assert host.id == host_id and queue.one("select count(*) from stoker.hosts") == 1


def test_a_signal_to_everybody_does_not_end_the_keeper(keeper: Process, host: Host, queue: Queue) -> None:
    host.worker_ready(0)
    os.kill(keeper.pid, signal.SIGTERM)
    until(lambda: host.keeper_slot[SlotWord.STATE] == SlotState.DRAINING)
    renewals = queue.one("select renewals from stoker.hosts")
    until(lambda: queue.one("select renewals from stoker.hosts") >= renewals + 2)
    keeper.supervisor.send(Recycle())
    assert keeper.exit_code() == 0
    assert queue.one("select count(*) from stoker.hosts") == 1 and host.id != 0


def test_without_its_supervisor_it_ends_in_time(start: Callable[[], Process], host: Host, queue: Queue) -> None:
    host.worker_ready(0)

    def seconds_left_alone() -> float:
        keeper = start()
        until(lambda: keeper.heard(Ready))
        (job_id,) = queue.add()
        queue.claim(host.id, host.slots[0][SlotWord.CLAIM_NO])
        keeper.supervisor.close()
        began = time.monotonic()
        code = keeper.exit_code()
        assert queue.state(job_id) == "running", "its worker, this test, is alive"
        # Its control thread ends it when it gets no processor for the last third of a second.
        return time.monotonic() - began if code == 0 else math.inf

    # Then its fork server would kill it.
    fastest(seconds_left_alone, below=3)


def test_a_frozen_server_is_given_up_after_a_few_seconds(keeper: Process, host: Host, queue: Queue) -> None:
    backends = stop_backends(queue)
    try:
        # A keeper that waits for its answer has its 25 s of trust for 20 s more.
        until(lambda: host.board[Word.TRUSTED_UNTIL] < boottime_ns() + 5 * S, within=15)
        # The frozen backend still has the lock: nobody else may take it, and the lease is short until it goes.
        until(lambda: host.board[Word.TRUSTED_UNTIL] > boottime_ns() + 3 * S)
    finally:
        continue_backends(backends)
    until(lambda: host.board[Word.TRUSTED_UNTIL] > boottime_ns() + 20 * S)
    assert not keeper.heard(WaitingForDatabase)


def test_close_is_kept_even_when_every_call_hangs(start: Callable[[], Process], host: Host, queue: Queue) -> None:
    def seconds_to_close() -> float:
        host.board[Word.PHASE] = Phase.RUNNING
        keeper = start()
        until(lambda: keeper.heard(Ready))
        backends = stop_backends(queue)
        try:
            host.board[Word.PHASE] = Phase.CLOSING
            began = time.monotonic()
            keeper.supervisor.send(Close(time.monotonic_ns() + 2 * S))
            keeper.exit_code()
            return time.monotonic() - began
        finally:
            continue_backends(backends)

    fastest(seconds_to_close, below=2.5)


def stop_backends(queue: Queue) -> list[int]:
    """The keeper's two, while both are idle: in a call they may hold what all other tests need of this server."""
    activity = "from pg_stat_activity where application_name = 'stoker: keeper' and datname = current_database()"

    def both() -> list[int]:
        seen = queue.rows(f"select pid, state {activity}")
        return [pid for pid, _ in seen] if [state for _, state in seen] == ["idle"] * 2 else []

    backends = until(both)
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    return backends


def continue_backends(backends: list[int]) -> None:
    for pid in backends:
        os.kill(pid, signal.SIGCONT)
