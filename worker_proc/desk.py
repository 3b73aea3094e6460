"""The worker's desk at the database: settles and claims in one round trip, and survives lost connections."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import psycopg

from stoker import logs
from stoker.database import Severer, connect
from stoker.drivers.base import Claimed, Holder, Settlement
from stoker.drivers.calls import Call, Keeping
from stoker.drivers.postgres import REFUSED, PostgresDriver
from stoker.errors import DriverUnavailable
from stoker.migrate import check
from stoker.settings import Settings
from stoker.sql import statement
from worker_proc.board import SlotWord
from worker_proc.control import Control

# A call that takes longer is cut and the connection opened anew.
CALL_LIMIT_S: Final = 15.0
STOPPING_LIMIT_S: Final = 3.0
# A claim whose answer was lost may be committed by a slow server even after we are back.
DOUBT_S: Final = 60.0
DOUBT_EVERY_S: Final = 2.0

log = logs.get("worker")

T = TypeVar("T")


class DeskClosed(Exception):
    """The database does not answer; what was pending is kept. The message says why."""


class Desk:
    """One connection with one user at a time. Raises DeskClosed for whatever is wrong with the connection."""

    def __init__(
        self,
        control: Control,
        *,
        settings: Settings,
        name: str,
        queue: str,
        executing: Callable[[], Iterable[int]],
        on_lost: Callable[[Settlement], None],
    ) -> None:
        self._control = control
        self._settings = settings
        self._name = name
        self._queue = queue
        self._executing = executing
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._driver: PostgresDriver | None = None
        self._severer: Severer | None = None
        # Lanes add on their own threads: one deque for life, whose single operations are atomic.
        self._pending: deque[Settlement] = deque()
        self._doubt_until = self._doubt_next = 0.0

    @property
    def connected(self) -> bool:
        """True while nothing is known to be wrong with the connection."""
        return self._driver is not None

    @property
    def pending(self) -> int:
        """How many endings wait to be written."""
        return len(self._pending)

    def open(self) -> None:
        """Connect. Raises DeskClosed, or SchemaTooOld and SchemaTooNew."""
        url = self._settings.database_url or ""
        try:
            conn = connect(url, name=self._name)
        except DriverUnavailable as error:
            raise DeskClosed(str(error.__cause__ or error)) from error
        severer = Severer(conn)
        try:
            with self._control.limit(severer, CALL_LIMIT_S):
                check(conn)
        except psycopg.Error as error:
            severer.close()
            conn.close()
            raise DeskClosed(str(error)) from error
        except BaseException:
            severer.close()
            conn.close()
            raise
        self._control.slot[SlotWord.BACKEND_PID] = conn.info.backend_pid
        self._driver, self._severer = PostgresDriver(conn, keeping=Keeping.of(self._settings)), severer

    def close(self) -> None:
        """Drop the connection; pending endings stay."""
        driver, severer = self._driver, self._severer
        self._driver = self._severer = None
        self._control.slot[SlotWord.BACKEND_PID] = 0
        if driver is not None and severer is not None:
            severer.close()
            driver.conn.close()

    def add(self, settlement: Settlement | None) -> None:
        """Keep an ending for the next round trip."""
        if settlement is not None:
            self._pending.append(settlement)

    def hand_back(self, claimed: Iterable[Claimed]) -> None:
        """Keep for the next round trip that these were not started."""
        for one in claimed:
            self.add(Settlement(job_id=one.id, run_no=one.run_no, outcome="handed_back"))

    def exchange(self, limit: int, holder: Holder) -> list[Claimed]:
        """Write the pending endings and claim up to `limit` jobs, in one round trip and one transaction."""
        with self._lock:
            self._settle_doubts(holder)
            batch = self._take()
            try:
                settled, claimed = self._within_limit(
                    lambda driver: driver.exchange(batch, self._queue, limit, holder), batch
                )
            except REFUSED:
                # One ending that PostgreSQL refuses spoils the batch; settle() isolates it.
                settled = self._within_limit(lambda driver: driver.settle(batch), batch)
                claimed = []
        self._report_lost(batch, {(one.job_id, one.run_no) for one in settled})
        return claimed

    def settle(self) -> None:
        """Write the pending endings now; any thread."""
        with self._lock:
            if not (batch := self._take()):
                return
            settled = self._within_limit(lambda driver: driver.settle(batch), batch)
        self._report_lost(batch, {(one.job_id, one.run_no) for one in settled})

    def _within_limit(self, call: Callable[[PostgresDriver], T], batch: list[Settlement]) -> T:
        """Make one call; on a broken connection the batch is pending again."""
        driver, severer = self._driver, self._severer
        if driver is None or severer is None:
            self._pending.extendleft(reversed(batch))
            raise DeskClosed("not connected")
        try:
            with self._control.limit(severer, STOPPING_LIMIT_S if self._control.stopping else CALL_LIMIT_S):
                return call(driver)
        except REFUSED:
            raise
        except psycopg.Error as error:
            # Also a server that turned read-only or lost a table: whatever it is, a new connection is the way out.
            self._pending.extendleft(reversed(batch))
            self._doubt_until = time.monotonic() + DOUBT_S
            self.close()
            raise DeskClosed(str(error)) from error

    def _take(self) -> list[Settlement]:
        batch = []
        while True:
            try:
                batch.append(self._pending.popleft())
            except IndexError:
                return batch

    def _settle_doubts(self, holder: Holder) -> None:
        now = time.monotonic()
        if now < self._doubt_until and now >= self._doubt_next:
            self._doubt_next = now + DOUBT_EVERY_S
            held = self._held()
            released = self._within_limit(lambda driver: driver.run(_release(holder, held)), [])
            if released:
                log.warning("worker.claims_recovered", jobs=len(released))

    def _held(self) -> list[int]:
        # In this order: what ends in between is pending before it stops executing.
        return [*self._executing(), *(one.job_id for one in self._pending.copy())]

    def _report_lost(self, batch: Sequence[Settlement], accepted: set[tuple[int, int]]) -> None:
        for one in batch:
            if (one.job_id, one.run_no) not in accepted:
                self._on_lost(one)


def _release(holder: Holder, held: list[int]) -> Call[list[int]]:
    params = {"host": holder.host, "claim_no": holder.claim_no, "held": held}
    return Call(statement("release_unheld"), params, lambda rows: [row[0] for row in rows])
