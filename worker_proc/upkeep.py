"""The work connection and its thread: maintenance that may take its time without holding up lease and deaths."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import deque
from contextlib import suppress

from msgspec.structs import replace
from psycopg import Connection

from stoker import logs
from stoker.drivers.calls import Keeping
from stoker.errors import FAILED
from stoker.settings import Settings
from worker_proc.board import Word
from worker_proc.control import Control, start_thread
from worker_proc.horizon import Horizon
from worker_proc.link import Link, LinkDown
from worker_proc.messages import Gauges
from worker_proc.retention import Days, Purging
from worker_proc.rota import Duty, Rota
from worker_proc.sampling import Sampling

_TIMEOUTS = "set statement_timeout = '20s'; set lock_timeout = '1s'"

log = logs.get("keeper")


class Upkeep:
    """Starts once, stops once. Main takes the gauges; nothing else is shared."""

    def __init__(self, control: Control, *, url: str, name: str, settings: Settings) -> None:
        self._control = control
        self._link = Link(control, url=url, name=name, keeping=Keeping.of(settings), prepare=_set_timeouts)
        self._gauges: deque[Gauges] = deque(maxlen=1)
        self._latest = Gauges([])
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._started = False
        self._is_lost = False
        duties: list[Duty] = [
            Days(self._link, keep=settings.retention, sleep=self._stop.wait),
            Sampling(self._link, queues=settings.queues, publish=self._publish_queues),
            Horizon(self._link, host_id=lambda: control.board[Word.HOST_ID], publish=self._publish_horizon),
            Purging(self._link, keep=settings.retention),
        ]
        self._rota = Rota(duties, is_up=lambda: self._link.is_up, longest_pause=30.0)

    def start(self) -> None:
        """Start the thread, once the schema is there; again is fine."""
        if not self._started:
            self._started = True
            start_thread(self._run, "stoker-upkeep")

    def stop(self, *, within: float) -> bool:
        """Ask the thread to end and cut what it is doing; True when it has ended."""
        self._stop.set()
        self._link.sever()
        return not self._started or self._ended.wait(within)

    def gauges(self) -> Gauges | None:
        """What was sampled since the last call."""
        with suppress(IndexError):
            return self._gauges.popleft()
        return None

    def _publish_queues(self, gauges: Gauges) -> None:
        self._publish(replace(self._latest, queues=gauges.queues))

    def _publish_horizon(self, held_s: float) -> None:
        self._publish(replace(self._latest, oldest_snapshot_s=held_s))

    def _publish(self, gauges: Gauges) -> None:
        self._latest = gauges
        self._gauges.append(gauges)
        self._control.wake_main()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._stop.wait(self._turn())
        except BaseException as error:  # noqa: BLE001 - the process ends here, visibly
            log.error("upkeep.died", error=repr(error), traceback=traceback.format_exc())
            os._exit(FAILED)
        finally:
            self._link.drop()
            self._ended.set()

    def _turn(self) -> float:
        try:
            if not self._link.is_up:
                if (pause := self._link.retry_in) > 0:
                    return pause
                self._link.open()
                self._back()
            self._rota.run_due()
        except LinkDown as error:
            self._lost(error)
            self._link.drop()
            return max(self._link.retry_in, 0.1)
        return min(max(0.0, self._rota.next_due() - time.monotonic()), 1.0)

    def _lost(self, error: LinkDown) -> None:
        """Said once, and not of every attempt to connect again."""
        if not self._is_lost and not self._stop.is_set():
            self._is_lost = True
            log.warning("database.connection_lost", connection="work", error=str(error))

    def _back(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.event("database.connected", connection="work")


def _set_timeouts(conn: Connection) -> None:
    conn.execute(_TIMEOUTS)
