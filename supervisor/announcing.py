"""Says how the house is: readiness changes to the log, the state to the service manager."""

from __future__ import annotations

from typing import Final

from stoker import logs
from supervisor import readiness
from supervisor.drain import Stage
from supervisor.house import House
from supervisor.notify import Notifier
from supervisor.snapshot import Snapshot
from worker_proc.linux import boottime_ns

log = logs.get("supervisor")

EXTEND_BY_S: Final = 30.0


class Announcer:
    """Looks at every snapshot and says each thing once."""

    def __init__(self, house: House, notifier: Notifier) -> None:
        self._house = house
        self._notifier = notifier
        self._born_at = house.snapshot.at
        self._was_ready: bool | None = None
        self._was_stopping = False
        self._reloading_from = 0

    def reload_began(self, now: int) -> None:
        """It ends when the next generation is complete, or when the old one is known to stay."""
        self._reloading_from = self._house.ledger.generation
        self._notifier.reloading(now)

    def look(self, now: int, *, importing: bool) -> None:
        """Say what is new."""
        snapshot = self._house.snapshot
        self._notifier.watchdog(now)
        if snapshot.stage:
            self._say_stopping(snapshot, now)
            return
        trusted = self._house.board.lease_trusted(boottime_ns())
        why = readiness.reasons(snapshot, now=now, draining=False, trusted=trusted)
        workers = [seat for seat in snapshot.seats if seat.role == "worker"]
        ready = sum(readiness.is_ready(seat.child, lease_ns=snapshot.lease_ns, now=now) for seat in workers)
        self._notifier.status(f"{ready} of {len(workers)} workers ready" + (f"; {why[0]}" if why else ""))
        self._say_ready(not why, why, now)
        if self._reloading_from and not importing and _is_complete(snapshot):
            self._say_reloaded(snapshot.generation)

    def _say_reloaded(self, generation: int) -> None:
        if generation > self._reloading_from:
            log.event("reload.finished", generation=generation)
        self._reloading_from = 0
        self._notifier.ready()

    def _say_ready(self, ready: bool, why: list[str], now: int) -> None:
        if ready and self._was_ready is None:
            log.event("supervisor.ready", took_s=round((now - self._born_at) / 1e9, 3))
            self._notifier.ready()
        elif ready and not self._was_ready:
            log.event("readiness.back")
        elif not ready and self._was_ready:
            log.warning("readiness.lost", reasons=why)
        if ready or self._was_ready is not None:
            self._was_ready = ready

    def _say_stopping(self, snapshot: Snapshot, now: int) -> None:
        if not self._was_stopping:
            self._was_stopping = True
            self._notifier.stopping()
        self._notifier.status(f"stopping: {self._house.in_flight()} jobs in flight")
        if snapshot.deadline is None and snapshot.stage < Stage.DONE:
            self._notifier.extend(now, by_s=EXTEND_BY_S)


def _is_complete(snapshot: Snapshot) -> bool:
    """Every seat has a child of this generation that was ready, and older ones are gone."""
    filled = all(seat.child and seat.child.ready_at for seat in snapshot.seats)
    return filled and all(child.generation == snapshot.generation for child in snapshot.children)
