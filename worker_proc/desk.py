"""The worker's desk at the database: settles and claims in one round trip, and survives lost connections."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from stoker import logs
from stoker.drivers import holding
from stoker.drivers.base import Claimed, Holder, Settled, Settlement
from stoker.drivers.calls import Call, Keeping
from stoker.drivers.postgres import REFUSED, PostgresDriver
from stoker.settings import Settings
from worker_proc.control import Control
from worker_proc.desk_connection import DeskClosed, DeskConnection
from worker_proc.marks import Mark
from worker_proc.round_trip import COMMIT, ROLLBACK, Claim, compose

# A claim whose answer was lost may be committed by a slow server even after we are back.
DOUBT_S: Final = 60.0
DOUBT_EVERY_S: Final = 2.0

log = logs.get("worker")


class Claims(Struct, frozen=True):
    """What a claim brought, in the order to run it: leased, or `locked` by the desk's open transaction."""

    jobs: list[Claimed]
    locked: bool
    full: bool


class Desk:
    """One connection with one user at a time. Raises DeskClosed for whatever is wrong with the connection.

    While jobs are held by row locks a transaction is open. Every settlement ends it: what ended is written, what still
    executes is leased if the caller says so, everything else is free again. A `solo` desk claims suspects, one by one.
    """

    def __init__(
        self,
        control: Control,
        *,
        settings: Settings,
        name: str,
        queue: str,
        held: Callable[[], list[int]],
        on_lost: Callable[[Settlement], None],
        solo: bool = False,
    ) -> None:
        self._queue = queue
        self._solo = solo
        self._keeping = keeping = Keeping.of(settings)
        self._held = held
        self._on_lost = on_lost
        self._connection = DeskConnection(control, url=settings.database_url or "", name=name, keeping=keeping)
        self._lock = threading.Lock()
        self._mark = Mark()
        self._holder = Holder(0, 0)
        # Lanes add on their own threads: one deque for life, whose single operations are atomic.
        self._pending: deque[Settlement] = deque()
        # Rows that the open transaction holds, and those whose transaction was lost before their endings were written.
        self._locked: set[int] = set()
        self._adrift: set[int] = set()
        self._doubt_until = self._doubt_next = 0.0

    @property
    def connected(self) -> bool:
        """True while nothing is known to be wrong with the connection."""
        return self._connection.is_open

    @property
    def pending(self) -> int:
        """How many endings wait to be written."""
        return len(self._pending)

    @property
    def holds_locks(self) -> bool:
        """True while a transaction is open."""
        return bool(self._locked)

    @property
    def may_have_more(self) -> bool:
        """True when a claim that found nothing proves nothing."""
        return self._mark.active

    def open(self) -> None:
        """Connect. Raises DeskClosed, or SchemaTooOld and SchemaTooNew."""
        self._connection.open()

    def close(self) -> None:
        """Drop the connection; pending endings stay."""
        self._connection.close()

    def add(self, settlement: Settlement | None) -> None:
        """Keep an ending for the next round trip."""
        if settlement is not None:
            self._pending.append(settlement)

    def let_go(self, unstarted: Sequence[Claimed]) -> None:
        """These were not started, and will not be: leased ones go back with the next round trip, locks end by it."""
        if unstarted:
            self._mark.back(min((one.priority, one.pos) for one in unstarted))
        for one in unstarted:
            if not self.may_hold(one):
                self.add(Settlement(job_id=one.id, run_no=one.run_no, outcome="handed_back"))

    def may_hold(self, claimed: Claimed) -> bool:
        """True while the row of a job is locked, or the lock is lost and nobody has leased the row (any thread)."""
        return claimed.id in self._locked or claimed.id in self._adrift

    def lost(self, claimed: Claimed) -> bool:
        """True when the row of a job was locked and the lock is lost: somebody else may run it by now."""
        return claimed.id in self._adrift

    def exchange(self, limit: int, holder: Holder, *, by_lock: bool = False, ahead: bool = False) -> Claims:
        """Write the pending endings and claim up to `limit` jobs, in one round trip.

        `ahead`: beside a body that runs, from another thread than the one that claims as a rule. Does nothing when
        that one has taken locks meanwhile, which would end here.
        """
        with self._lock:
            if ahead and self._locked:
                return Claims([], locked=False, full=False)
            self._holder = holder
            self._settle_doubts()
            started = time.monotonic()
            by_lock = by_lock and self._connection.keeps_transactions
            claimed = self._trip(Claim(limit, self._mark.start(started), by_lock, suspect=self._solo))
            now = time.monotonic()
            last = (claimed[-1].priority, claimed[-1].pos) if claimed else None
            self._mark.claimed(last, took=now - started, now=now)
            if by_lock and not claimed:
                # Nothing is locked, and a transaction that stays open would keep a snapshot from everybody's vacuum.
                self._call([COMMIT])
        return Claims(claimed, locked=by_lock, full=len(claimed) == limit)

    def settle(self, *, keep: Sequence[Claimed] = ()) -> None:
        """Write the pending endings now and let go of every lock, but lease the jobs in `keep`; any thread."""
        with self._lock:
            if self._pending or self._locked:
                self._trip(None, keep=keep)

    def _trip(self, claim: Claim | None, *, keep: Sequence[Claimed] = ()) -> list[Claimed]:
        """One round trip; returns what was claimed. When the connection breaks, what ended is pending again."""
        batch = self._take()
        try:
            batch = self._regain(batch)
            try:
                return self._send(batch, claim, keep)
            except REFUSED:
                # One ending that PostgreSQL refuses spoils the batch; written alone it becomes that job's error.
                batch = self._regain(batch, keep, after=[ROLLBACK])
                settled = self._connection.call(lambda driver: _settle_singly(driver, batch))
                self._report_lost(batch, settled)
                batch = []
                return self._send(batch, claim, ())
        except DeskClosed:
            self._pending.extendleft(reversed(batch))
            raise

    def _send(self, batch: list[Settlement], claim: Claim | None, keep: Sequence[Claimed]) -> list[Claimed]:
        locked = self._locked
        calls = compose(
            batch,
            claim,
            queue=self._queue,
            locked=locked,
            keep=[one.id for one in keep],
            holder=self._holder,
            keeping=self._keeping,
        )
        answers = self._call(calls) if calls else []
        claimed: list[Claimed] = answers.pop() if claim else []
        self._locked = {one.id for one in claimed} if claim and claim.by_lock else set()
        if self._adrift:
            self._adrift.difference_update(one.id for one in claimed)
        settled = [one for answer in answers if answer for one in answer]
        self._report_lost([one for one in batch if one.job_id not in locked], settled)
        return claimed

    def _call(self, calls: Sequence[Call[Any]]) -> list[Any]:
        try:
            return self._connection.call(lambda driver: driver.pipelined(calls))
        except (DeskClosed, *REFUSED):
            # The transaction is over, and its locks with it.
            self._adrift |= self._locked
            self._locked = set()
            self._doubt_until = time.monotonic() + DOUBT_S
            raise

    def _regain(
        self, batch: list[Settlement], keep: Sequence[Claimed] = (), *, after: Sequence[Call[Any]] = ()
    ) -> list[Settlement]:
        """Lease rows that lost their locks, in one round trip with `after`: in between others may take them.

        Returns the endings that are still ours to write: a row that somebody else took meanwhile is left to them.
        """
        ended = {one.job_id: one.run_no for one in batch if one.job_id in self._adrift}
        adrift = ended | {one.id: one.run_no for one in keep if one.id in self._adrift}
        if not adrift and not after:
            return batch
        calls = [*after, holding.lease_again(adrift, self._holder)]
        regained: set[int] = self._call(calls)[-1]
        gone = ended.keys() - regained
        self._adrift -= ended.keys() | regained
        if gone:
            log.warning("worker.locks_lost", jobs=len(gone))
        return [one for one in batch if one.job_id not in gone]

    def _take(self) -> list[Settlement]:
        batch = []
        while True:
            try:
                batch.append(self._pending.popleft())
            except IndexError:
                return batch

    def _settle_doubts(self) -> None:
        now = time.monotonic()
        if now < self._doubt_until and now >= self._doubt_next:
            self._doubt_next = now + DOUBT_EVERY_S
            # In this order: what ends in between is pending before it stops executing.
            held = [*self._held(), *(one.job_id for one in self._pending.copy())]
            released = self._call([holding.release_unheld(held, self._holder)])[0]
            if released:
                log.warning("worker.claims_recovered", jobs=len(released))

    def _report_lost(self, batch: Sequence[Settlement], settled: Sequence[Settled]) -> None:
        accepted = {(one.job_id, one.run_no) for one in settled}
        for one in batch:
            if (one.job_id, one.run_no) not in accepted:
                self._on_lost(one)


def _settle_singly(driver: PostgresDriver, batch: list[Settlement]) -> list[Settled]:
    # After a rollback psycopg deallocates every prepared statement, but behind the next one: that must not be prepared.
    driver.conn.execute("select 1", prepare=False)
    return driver.settle(batch)
