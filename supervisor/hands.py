"""The hands: fork, tell, kill. They decide nothing."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from stoker import logs
from supervisor.fork_client import ForkClient
from supervisor.house import House
from supervisor.records import Child, Kill, Seat, Slot
from supervisor.stacks import StackFile
from supervisor.wire import Wire
from worker_proc.board import SlotWord
from worker_proc.channel import Channel
from worker_proc.messages import AnyMessage, ForkSpec, Message, SlotRef

log = logs.get("supervisor")


@dataclass(frozen=True, slots=True)
class _Hold:
    """What we have of one child: our end of its pipe, the file of its stacks, and who forks it."""

    wire: Wire
    stack: StackFile
    forker: ForkClient

    def close(self) -> None:
        """Let go of it."""
        self.wire.close()
        self.stack.close()


class Hands:
    """Acts on the children. `on_message` gets whatever a child says."""

    def __init__(self, house: House, *, on_message: Callable[[Child, AnyMessage], None]) -> None:
        self._house = house
        self._on_message = on_message
        self._holds: dict[int, _Hold] = {}

    def spawn(self, seat: Seat, forker: ForkClient) -> Child | None:
        """Have a child forked for this seat, if its queue has a free slot. OSError: nothing has happened."""
        ledger, now = self._house.ledger, time.monotonic_ns()
        if (slot := ledger.free_slot(seat)) is None:
            return None
        # Whatever the system may refuse is asked for before the ledger names a child.
        with contextlib.ExitStack() as unused:
            stack = StackFile()
            unused.callback(stack.close)
            ours, theirs = Channel.pair()
            unused.callback(ours.close)
            unused.callback(theirs.close)
            fds: list[int] = []
            for fd in (stack.fd, *self._event_fds(slot, seat)):
                fds.append(os.dup(fd))
                unused.callback(os.close, fds[-1])
            wire = Wire(ours, selector=self._house.selector, on_event=lambda: self.hear(child))
            unused.pop_all()
        child = ledger.spawn(seat, slot, now, boot_by=now + self._house.limits.boot)
        self._limit(child)
        self._house.place(child).reset(generation=child.generation, claim_no=child.claim_no)
        self._holds[child.claim_no] = _Hold(wire, stack, forker)
        forker.fork(self._spec(child), [theirs.detach(), *fds])
        return child

    def tell(self, child: Child, message: Message) -> None:
        """Send a message, even to a child that is not born yet."""
        self._holds[child.claim_no].wire.send(message)

    def hear(self, child: Child) -> None:
        """Take what a child said."""
        for message in self._holds[child.claim_no].wire.messages():
            self._on_message(child, message)

    def ask(self, child: Child, kill: Kill) -> None:
        """Have a child that is to be killed leave its stacks; one that cannot is killed now."""
        child.asked = kill
        if not self._holds[child.claim_no].stack.ask(child.pid, self._house.place(child)[SlotWord.CONTROL_TID]):
            self.end(child, kill)

    def stack_bytes(self, child: Child) -> int:
        """How much of its stacks a child has left."""
        return self._holds[child.claim_no].stack.size

    def spare(self, child: Child) -> None:
        """There is no reason any more to kill this child, which was asked for its stacks."""
        child.asked = None
        child.look = replace(child.look, stack=0)
        self._holds[child.claim_no].stack.clear()

    def end(self, child: Child, kill: Kill) -> None:
        """SIGKILL a child and everything in its process group, once."""
        child.kill = kill
        log.warning("child.killed", child=child.seat.name, pid=child.pid, how=kill.how, why=kill.why)
        kill_group(child.pid)
        if not child.pid:
            # The fork server was asked for it and does not answer: its end is the end of the request.
            self._holds[child.claim_no].forker.kill()

    def part(self, child: Child) -> str:
        """Take a dead child's last words and let go of its pipe; returns the stacks it left."""
        self.hear(child)
        with contextlib.closing(self._holds.pop(child.claim_no)) as hold:
            return hold.stack.read()

    def close(self) -> None:
        """Let go of everybody."""
        for hold in self._holds.values():
            hold.close()
        self._holds.clear()

    def _event_fds(self, slot: Slot, seat: Seat) -> list[int]:
        """The supervisor's own: of the child's slot and, for the keeper, of everybody it wakes."""
        slots = [slot, *(self._house.ledger.worker_slots() if seat.role == "keeper" else ())]
        return [self._house.event_fds[one.offset] for one in slots]

    def _limit(self, child: Child) -> None:
        # Workers that started together would otherwise all reach their limits together.
        if queue := self._house.settings.queues.get(child.seat.queue):
            share = 1 - queue.jitter * random.random()
            child.max_jobs = max(1, int(queue.max_jobs * share)) if queue.max_jobs else None
            child.max_rss = int(queue.max_rss * share) if queue.max_rss else None
            child.max_age = int(queue.max_age * share * 1e9) if queue.max_age else None
            child.kill_rss = queue.kill_rss

    def _spec(self, child: Child) -> ForkSpec:
        ledger = self._house.ledger
        workers, solos = (ledger.worker_slots(), ledger.solo_slots()) if child.role == "keeper" else ([], [])
        return ForkSpec(
            slot=child.slot.number,
            role=child.role,
            title=child.title,
            offset=child.slot.offset,
            lanes=child.slot.lanes,
            claim_no=child.claim_no,
            generation=child.generation,
            names=list(self._house.names.table),
            queue=child.seat.queue,
            workers=[_ref(slot) for slot in workers],
            solo=child.seat.solo,
            solos=[_ref(slot) for slot in solos],
        )


def _ref(slot: Slot) -> SlotRef:
    return SlotRef(slot.number, slot.queue, slot.offset, slot.lanes)


def kill_group(pid: int) -> None:
    """SIGKILL a process group whose leader is a child of ours that was not reaped yet."""
    if pid > 0:
        # A group of which nobody may be killed by us (setuid programs) must not end the supervisor.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
