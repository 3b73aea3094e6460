"""The keeper: this host's lease, and whatever has to be seen to in the database between the jobs."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final

import psycopg

from stoker import logs, registry
from stoker.drivers.calls import Keeping
from stoker.errors import DatabaseNotGiven
from stoker.settings import Settings
from worker_proc.announcing import Announcing
from worker_proc.blame import Blame
from worker_proc.board import SlotWord
from worker_proc.cancelling import Cancelling
from worker_proc.control import Control
from worker_proc.due import Due, Unparking
from worker_proc.ending import Ending
from worker_proc.host_lease import HostLease, Identity
from worker_proc.link import LinkDown
from worker_proc.messages import AnyMessage, ChildDied, Closed, ForkSpec
from worker_proc.observing import Observing
from worker_proc.outgoing import Outgoing
from worker_proc.reaping import LateClaims, Reaping
from worker_proc.role import Role
from worker_proc.rota import Duty, Rota
from worker_proc.session import Session
from worker_proc.solos import Solos
from worker_proc.suspects import Suspects
from worker_proc.sweeping import Sweeping
from worker_proc.upkeep import Upkeep
from worker_proc.wakeups import Wakeups

DRAIN_LOOK_S: Final = 0.05

log = logs.get("keeper")


class Keeper(Role):
    """One per host. A lost connection is opened anew; the duties go on until the supervisor says close."""

    # The workers drain under its lease: it goes last, when the supervisor says so.
    leaves_on_signal = False

    def __init__(
        self, control: Control, *, spec: ForkSpec, settings: Settings, wake_fds: Sequence[int], lock_fd: int
    ) -> None:
        super().__init__(control)
        url = settings.direct_database_url or settings.database_url
        if url is None:
            raise DatabaseNotGiven
        self._outgoing = Outgoing(control)
        self.wakeups = Wakeups(control.board, workers=spec.workers, wake_fds=wake_fds)
        self.session = Session(control, url=url, name=spec.title, keeping=Keeping.of(settings), hear=self._heard)
        tell, link = self._outgoing.tell, self.session
        identity = Identity.of_this_process(lock_fd)
        self.lease = HostLease(link, control.board, settings=settings, identity=identity, tell=tell)
        self._announcing = Announcing(control, lease=self.lease, tell=tell)
        job_of, rng = registry.current().get, random.Random()
        blame = Blame(job_of=job_of, max_crashes=settings.max_crashes, rng=rng)
        self.suspects = Suspects(link, blame=blame, host_id=self._host_id)
        self.reaping = Reaping(
            link,
            blame=blame,
            suspects=self.suspects,
            host_id=self._host_id,
            tell=tell,
            freed=self._freed,
        )
        self.cancelling = Cancelling(link, host_id=self._host_id, outgoing=self._outgoing)
        self.due = Due(link, wakeups=self.wakeups, settings=settings)
        self.solos = Solos(link, queues=(ref.queue for ref in spec.workers), outgoing=self._outgoing)
        self._slots = [control.board.slot(ref.offset, ref.lanes) for ref in (*spec.workers, *spec.solos)]
        self._ending = Ending(control, link=link, lease=self.lease, reaping=self.reaping, workers=self._slots)
        self._upkeep = Upkeep(control, url=url, name=spec.title, settings=settings)
        self._rota = Rota(self._duties(spec, settings, identity), is_up=lambda: link.is_up, longest_pause=1.0)

    def _duties(self, spec: ForkSpec, settings: Settings, identity: Identity) -> list[Duty]:
        link = self.session
        late = LateClaims(
            link,
            reaping=self.reaping,
            host_id=self._host_id,
            own_claim_no=spec.claim_no,
            living=self._living,
            every=settings.renew_every,
        )
        sweeping = Sweeping(link, settings=settings)
        observing = Observing(link, lease=self.lease, identity=identity, sweeping=sweeping, settings=settings)
        unparking = Unparking(link, names=spec.names, wakeups=self.wakeups, settings=settings)
        # Deaths and renewals first; whoever judges a host dead comes before those who sweep after it.
        first: list[Duty] = [self.reaping, self.suspects, self.lease, self._announcing]
        return [*first, self.solos, self.wakeups, self.due, self.cancelling, late, observing, sweeping, unparking]

    @property
    def done(self) -> bool:
        """Only when told to close: a drain needs the lease to its end."""
        return self.control.told_to_close

    def turn(self) -> float:
        """Run what is due."""
        self._outgoing.flush()
        if gauges := self._upkeep.gauges():
            self._outgoing.tell(gauges)
        try:
            if not self.session.is_up:
                return self._reconnect()
            self._rota.run_due()
            # After the first round: a start waits for the lease, and nobody waits for maintenance.
            self._upkeep.start()
            self.session.hear()
        except LinkDown as error:
            self._session_lost(error)
            return 0.0
        return min(self._rota.next_due() - time.monotonic(), self._outgoing.flush())

    def wait(self, seconds: float) -> None:
        """Sleep until something is due or heard; what is heard is passed on before anything else is done."""
        if not self.session.is_up:
            self.control.wait(seconds)
        elif self.control.wait(seconds, [self.session.fileno()]):
            try:
                self.session.hear()
            except LinkDown as error:
                self._session_lost(error)

    def drain(self) -> Closed:
        """Go on until nothing is left to settle."""
        self._ending.begin()
        self._upkeep.stop(within=0.0)
        while not self._is_over():
            self.wait(min(self.turn(), DRAIN_LOOK_S))
        return Closed(finished=0, interrupted=self._ending.handed_back, abandoned=len(self.reaping.waiting))

    def _is_over(self) -> bool:
        try:
            return self._ending.over
        except (LinkDown, psycopg.Error) as error:
            self._session_lost(error)
            return False

    def close(self) -> None:
        """End the session; what the lease is worth without it stays on the board."""
        self._upkeep.stop(within=DRAIN_LOOK_S)
        self.session.drop()
        self.lease.session_ended()

    def _reconnect(self) -> float:
        if (pause := self.session.retry_in) > 0:
            return pause
        try:
            self.session.open()
        except LinkDown as error:
            self._announcing.waiting(self.session.place, str(error))
            return self.session.retry_in
        log.event("database.connected", connection="session")
        self._announcing.connected()
        self.lease.due_at = 0.0
        # Whatever was said while nobody listened:
        self.due.hear()
        self.wakeups.wake_all()
        return 0.0

    def _session_lost(self, error: Exception) -> None:
        log.warning("database.connection_lost", connection="session", error=str(error))
        self.session.drop()
        self.lease.session_ended()
        self._announcing.lost()

    def _heard(self, channel: str, payload: str) -> None:
        match channel:
            case "stoker_ready":
                self.wakeups.hear(payload)
            case "stoker_due":
                self.due.hear()
            case "stoker_cancel":
                self.cancelling.hear(payload)

    def _freed(self, queue: str) -> None:
        self.wakeups.hear(queue)
        self.solos.hear()

    def _host_id(self) -> int:
        return self.lease.host_id

    def _living(self) -> set[int]:
        return {slot[SlotWord.CLAIM_NO] for slot in self._slots}

    # On the control thread

    def on_message(self, message: AnyMessage) -> None:
        """A death is settled by main."""
        if isinstance(message, ChildDied):
            self.reaping.hear(message)
            self.control.wake_main()
