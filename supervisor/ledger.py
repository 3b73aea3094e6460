"""The ledger: which children should exist, which do, and how they fared. Pure: no system calls, no clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from supervisor.records import Child, Seat, Slot, State


class Ledger:
    """Seats, slots and children, and the transitions between their states."""

    def __init__(self, *, add_slot: Callable[[int], int]) -> None:
        self._add_slot = add_slot
        self.seats: list[Seat] = []
        # Of each queue: filled on demand, missed by nobody.
        self.solos: dict[str, Seat] = {}
        self.suspects_wait: set[str] = set()
        self.slots: list[Slot] = []
        self.children: dict[int, Child] = {}
        self.generation = 1
        self.ever_ready = False
        # Why nothing can ever run: a refusal by application or configuration, or no process to fork from.
        self.refused = ""
        self.stranded = ""
        self._last_claim_no = 0

    def arrange(self, queues: Mapping[str, tuple[int, int]]) -> None:
        """Want a keeper and, per queue, (processes, lanes) workers. Seats that are not wanted empty by retirement."""
        wanted = {("", 0): 1} | {(name, index): lanes for name, (n, lanes) in queues.items() for index in range(n)}
        known = {(seat.queue, seat.index): seat for seat in self.seats}
        for (queue, index), lanes in wanted.items():
            if seat := known.get((queue, index)):
                seat.lanes, seat.wanted = lanes, True
            else:
                self.seats.append(Seat("worker" if queue else "keeper", queue, index, lanes))
        for place, seat in known.items():
            seat.wanted = place in wanted
        self._provide("", 1, 1)
        for name, (processes, lanes) in queues.items():
            self._provide(name, lanes, processes + 1)
            self._provide(name, 1, 1, solo=True)
        self.solos = {name: self.solos.get(name) or Seat("worker", name, 0, 1, solo=True) for name in queues}
        self.suspects_wait &= self.solos.keys()
        self.sweep()

    def next_generation(self, generation: int) -> None:
        """Children of earlier generations are outdated; what kept a seat from being filled is forgotten."""
        self.generation = generation
        for seat in (*self.seats, *self.solos.values()):
            seat.failures, seat.short_lives, seat.retry_at, seat.parked = 0, 0, 0, ""

    def ask_for_solos(self, queues: Collection[str]) -> None:
        """Suspects wait in these queues. A solo worker that lives takes them; if it is just ending, ask again."""
        served = {child.seat.queue for child in self.children.values() if child.seat.solo}
        self.suspects_wait = (self.solos.keys() & set(queues)) - served

    def free_slot(self, seat: Seat) -> Slot | None:
        """A free slot of the seat's queue, if there is one now."""
        return next((slot for slot in self.slots if not slot.child and _fits(slot, seat)), None)

    def spawn(self, seat: Seat, slot: Slot, now: int, *, boot_by: int) -> Child:
        """Put a child on a free slot of the seat's queue."""
        if seat.solo:
            self.suspects_wait.discard(seat.queue)
        self._last_claim_no += 1
        child = Child(self._last_claim_no, seat, slot, self.generation, now, boot_by)
        slot.child = self.children[child.claim_no] = child
        if seat.child:
            seat.successor = child
        else:
            seat.child = child
        return child

    def booted(self, child: Child) -> None:
        """The boot deadline is off."""
        child.booted = True

    def waits(self, child: Child, error: str, now: int) -> bool:
        """Alive, without a database. False if that was known."""
        news = not child.waiting
        if news:
            child.waiting_since = now
        child.waiting = error
        return news

    def ready(self, child: Child, now: int) -> Child | None:
        """Able to work. Returns the predecessor, which is to retire now."""
        child.waiting = ""
        if child.state is not State.STARTING:
            return None
        child.state = State.READY
        seat = child.seat
        if not child.ready_at:
            child.ready_at = now
            seat.failures, seat.parked = 0, ""
            seat.ever_ready = self.ever_ready = True
        if seat.successor is not child:
            return None
        predecessor, seat.child, seat.successor = seat.child, child, None
        return predecessor

    def retire(self, child: Child) -> None:
        """It was told to finish what it holds; it does not count for its seat any more."""
        child.state, child.retiring = State.DRAINING, True
        seat = child.seat
        if seat.child is child:
            seat.child = None
        elif seat.successor is child:
            seat.successor = None

    def drains(self, child: Child) -> None:
        """It takes nothing new."""
        if child.state is not State.EXITED:
            child.state = State.DRAINING

    def exited(self, child: Child) -> None:
        """It is gone: its slot and its seat are free."""
        child.state = State.EXITED
        child.slot.child = None
        self.children.pop(child.claim_no, None)
        seat = child.seat
        if seat.successor is child:
            seat.successor = None
        elif seat.child is child:
            seat.child, seat.successor = seat.successor, None
        self.sweep()

    def sweep(self) -> None:
        """Drop seats that are neither wanted nor taken."""
        taken = {id(child.seat) for child in self.children.values()}
        self.seats = [seat for seat in self.seats if seat.wanted or id(seat) in taken]

    def workers(self) -> list[Child]:
        """Every living worker, retiring ones included."""
        return [child for child in self.children.values() if child.role == "worker"]

    def keeper(self) -> Child | None:
        """The keeper that lives, if one does."""
        return next((child for child in self.children.values() if child.role == "keeper"), None)

    def by_pid(self, pid: int) -> Child | None:
        """The child with this process id."""
        return next((child for child in self.children.values() if child.pid == pid), None)

    def worker_seats(self) -> list[Seat]:
        """The workers that should exist."""
        return [seat for seat in self.seats if seat.role == "worker" and seat.wanted]

    def worker_slots(self) -> list[Slot]:
        """Every place that has a worker or may get one."""
        wanted = {(seat.queue, seat.lanes) for seat in self.worker_seats()}
        slots = [slot for slot in self.slots if slot.queue and not slot.solo]
        return [slot for slot in slots if slot.child or (slot.queue, slot.lanes) in wanted]

    def solo_slots(self) -> list[Slot]:
        """The places of solo workers."""
        return [slot for slot in self.slots if slot.solo]

    def _provide(self, queue: str, lanes: int, count: int, *, solo: bool = False) -> None:
        have = sum((slot.queue, slot.lanes, slot.solo) == (queue, lanes, solo) for slot in self.slots)
        for _ in range(count - have):
            self.slots.append(Slot(len(self.slots), queue, lanes, self._add_slot(lanes), solo))


def _fits(slot: Slot, seat: Seat) -> bool:
    return (slot.queue, slot.lanes, slot.solo) == (seat.queue, seat.lanes, seat.solo)
