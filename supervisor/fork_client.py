"""The supervisor's end of a fork server: hands requests over, never waits for it."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Sequence
from enum import StrEnum

from supervisor.launching import Launched
from supervisor.wire import Wire
from worker_proc.channel import Channel
from worker_proc.messages import AnyMessage, Fork, Forked, ForkFailed, ForkSpec, Imported, ImportFailed, StartServer


class ServerState(StrEnum):
    """States of a fork server."""

    IMPORTING = "importing"
    SERVING = "serving"
    FAILED = "failed"
    EXITED = "exited"


class ForkClient:
    """One fork server and the generation of children it forks. `on_reply` gets what it says about the children."""

    def __init__(
        self,
        launched: Launched,
        *,
        settings: bytes,
        board_fd: int,
        lock_fd: int,
        generation: int,
        born_at: int,
        selector: selectors.BaseSelector,
        on_reply: Callable[[ForkClient, AnyMessage], None],
        guarded: Sequence[int] = (),
    ) -> None:
        self.generation = generation
        self.born_at = born_at
        self.state = ServerState.IMPORTING
        self.killed = False
        self._open: set[int] = set()
        self._on_reply = on_reply
        self._process, sock = launched.take()
        self._wire = Wire(Channel.of(sock), selector=selector, on_event=self.hear)
        # They are our children and not reaped, so each pid still names the right one.
        pidfds = [os.pidfd_open(pid) for pid in guarded]
        self._wire.send(StartServer(settings, os.getpid(), list(guarded)), [os.dup(board_fd), os.dup(lock_fd), *pidfds])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_open_request(self) -> bool:
        """True while a pid nobody knows may be a child of ours."""
        return bool(self._open)

    def fork(self, spec: ForkSpec, fds: Sequence[int]) -> None:
        """Ask for one child; the answer is `Forked` or `ForkFailed`. The descriptors are ours to close from here on."""
        self._open.add(spec.claim_no)
        self._wire.send(Fork(spec), fds)

    def exited(self, code: int) -> set[int]:
        """It is gone and was reaped. Returns the claim numbers of children that were never born."""
        self.hear()
        self._wire.close()
        # We reap by waitid; Popen would otherwise complain that nobody did.
        self._process.returncode = code
        self.state = ServerState.EXITED
        unborn, self._open = self._open, set()
        return unborn

    def close(self) -> None:
        """Let it go: it ends once it sees this and none of its children is alive."""
        self._wire.close()
        if self.state is ServerState.IMPORTING:
            self.kill()

    def kill(self) -> None:
        """End it and whatever its import started, once. Its children live on, unguarded."""
        if self.state is not ServerState.EXITED and not self.killed:
            self.killed = True
            os.killpg(self.pid, signal.SIGKILL)

    def hear(self) -> None:
        """Take what it said."""
        for message in self._wire.messages():
            match message:
                case Imported():
                    self.state = ServerState.SERVING
                case ImportFailed():
                    self.state = ServerState.FAILED
                case Forked(claim_no=claim_no) | ForkFailed(claim_no=claim_no):
                    self._open.discard(claim_no)
            self._on_reply(self, message)
