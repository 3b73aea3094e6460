"""Carries cancel requests to the supervisor for as long as the job runs here, and clears those that have no run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from stoker.drivers.calls import Call, Rows
from stoker.drivers.postgres import PostgresDriver
from stoker.sql import statement
from worker_proc.link import Link
from worker_proc.messages import CancelRequested, Message
from worker_proc.outgoing import Outgoing

EVERY_S: Final = 1.0
PAGE: Final = 500


class Request(Struct, frozen=True):
    """A stored request; `state` and `host` are those of its job, None when it is gone."""

    job_id: int
    reason: str
    state: str | None
    host: int | None


class Cancelling:
    """Hears of requests at once, and looks at all of them each second: a notification may be lost."""

    name = "cancel requests"

    def __init__(self, link: Link, *, host_id: Callable[[], int], outgoing: Outgoing) -> None:
        self._link = link
        self._host_id = host_id
        self._outgoing = outgoing
        self._heard: deque[int] = deque(maxlen=PAGE)
        self._look_at = 0.0

    @property
    def due_at(self) -> float:
        """At once when something was heard."""
        return 0.0 if self._heard else self._look_at

    def hear(self, job_id: str) -> None:
        """Somebody asked for this job to be cancelled."""
        if job_id.isdigit() and len(job_id) < 19:
            self._heard.append(int(job_id))

    def run(self) -> None:
        """See to what was heard, or to everything."""
        with self._link.limited() as db:
            if self._heard:
                ids = [self._heard.popleft() for _ in range(len(self._heard))]
                self._see_to(db, db.run(_read_some(ids)))
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + EVERY_S
                for page in _pages(db):
                    self._see_to(db, page)

    def _see_to(self, db: PostgresDriver, requests: list[Request]) -> None:
        here = self._host_id()
        for request in requests:
            # A full pipe: the request persists, and so do we, a second later.
            if _may_run_on(here, request) and self._outgoing.clear:
                self._outgoing.tell(_to_supervisor(request))
        idle = [request for request in requests if request.state != "running"]
        if idle:
            db.run(_end_idle(idle))


def _may_run_on(host: int, request: Request) -> bool:
    # Who holds a job by a row lock is not in its row: the supervisor knows whether one of its lanes does.
    return request.state == "ready" or (request.state == "running" and request.host == host)


def _to_supervisor(request: Request) -> Message:
    return CancelRequested(request.job_id, request.reason[:1000])


def _pages(db: PostgresDriver) -> Iterator[list[Request]]:
    after = 0
    while page := db.run(_read_after(after)):
        yield page
        after = page[-1].job_id


def _read_some(ids: list[int]) -> Call[list[Request]]:
    return Call(statement("read_requests"), {"ids": ids, "after": 0, "limit": PAGE}, _requests)


def _read_after(after: int) -> Call[list[Request]]:
    return Call(statement("read_requests"), {"ids": None, "after": after, "limit": PAGE}, _requests)


def _requests(rows: Rows) -> list[Request]:
    return [Request(*row) for row in rows]


def _end_idle(requests: list[Request]) -> Call[None]:
    params = {
        "gone": [request.job_id for request in requests if request.state is None],
        "waiting": [request.job_id for request in requests if request.state is not None],
        "reasons": [request.reason for request in requests if request.state is not None],
    }
    return Call(statement("end_requests"), params, lambda _: None)
