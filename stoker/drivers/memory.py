"""Jobs in this process's memory, for tests: the same promises as PostgreSQL, as far as one process can keep them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from stoker.drivers.base import (
    CancelResult,
    Claimed,
    Enqueued,
    Holder,
    JobView,
    NewJob,
    Outcome,
    Settled,
    Settlement,
    State,
)
from stoker.drivers.memory_row import (
    Row,
    cancelled_by,
    due_time,
    in_full,
    note_attempt,
    stored,
    view_of,
    without_stack,
)
from stoker.errors import JobDuplicate, JobNotCancellable, JobNotFound

_ENDINGS: dict[Outcome, State] = {"completed": "done", "dead_lettered": "dead", "cancelled": "cancelled"}
_KEEPING_THEIR_PLACE = ("interrupted", "handed_back", "suspected")

Clock = Callable[[], datetime]
# Name, tenant, idempotency key.
Key = tuple[str, str, str]


class MemoryDriver:
    """A queue in memory. Thread-safe; nothing survives the process, and a caller's transaction means nothing to it."""

    def __init__(self, *, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.clock = clock
        self._numbers = count(1)
        self._live: dict[int, Row] = {}
        self._finished: dict[int, Row] = {}
        self._keys: dict[Key, int] = {}
        self._cancels: dict[int, str] = {}
        self._lock = threading.RLock()

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, in order, all or none. Raises JobDuplicate for on_conflict="error"."""
        with self._lock:
            if all(job.on_conflict != "error" for job in jobs):
                return [self._enqueue(job) for job in jobs]
            before = copy.deepcopy((self._live, self._keys))
            try:
                return [self._enqueue(job) for job in jobs]
            except JobDuplicate:
                self._live, self._keys = before
                raise

    def _enqueue(self, job: NewJob) -> Enqueued:
        known = self._twin(job.name, job.tenant, job.idempotency_key)
        if known is None:
            number = next(self._numbers)
            row = Row(id=number, pos=number, created_at=self.clock(), **stored(job))
            self._add(row)
            self._make_wait(row, job)
            return Enqueued(number, True)
        if job.on_conflict == "error":
            key = job.idempotency_key or ""
            raise JobDuplicate(name=job.name, key=key, job_id=known.id, tenant=job.tenant)
        if job.on_conflict == "replace" and known.state in ("ready", "delayed"):
            for name, value in stored(job).items():
                setattr(known, name, value)
            self._make_wait(known, job)
        return Enqueued(known.id, False)

    def _make_wait(self, row: Row, job: NewJob) -> None:
        now = self.clock()
        due = job.run_at or now + timedelta(seconds=job.delay or 0.0)
        row.state, row.run_at = ("delayed", due) if due > now else ("ready", None)

    def _add(self, row: Row) -> None:
        self._live[row.id] = row
        if row.idempotency_key is not None:
            self._keys[row.name, row.tenant or "", row.idempotency_key] = row.id

    def _twin(self, name: str, tenant: str | None, key: str | None) -> Row | None:
        found = None if key is None else self._keys.get((name, tenant or "", key))
        return None if found is None else self._live[found]

    def claim(self, queue: str, limit: int, holder: Holder) -> list[Claimed]:
        """Mark ready jobs running, in order of priority and place."""
        with self._lock:
            waiting = (row for row in self._live.values() if row.queue == queue and row.state == "ready")
            # Suspects run alone, in a process of their own.
            ready = sorted((row for row in waiting if not row.suspect), key=lambda row: (row.priority, row.pos))
            return [self._claim(row, holder) for row in ready[:limit]]

    def _claim(self, row: Row, holder: Holder) -> Claimed:
        row.state, row.holder, row.started_at = "running", holder, self.clock()
        row.run_no += 1
        row.attempt += 1
        return Claimed(**{name: getattr(row, name) for name in Claimed.__struct_fields__})

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how runs ended; what is missing in the answer was not the caller's any more."""
        with self._lock:
            return [self._settle(row, given) for given in settlements if (row := self._held(given))]

    def _held(self, given: Settlement) -> Row | None:
        row = self._live.get(given.job_id)
        return row if row is not None and row.state == "running" and row.run_no == given.run_no else None

    def _settle(self, row: Row, given: Settlement) -> Settled:
        ending = given.outcome
        if ending not in _ENDINGS and row.id in self._cancels:
            ending = "cancelled"
        reason = self._cancels.get(row.id, "")
        given = in_full(given, reason)
        note_attempt(row, given, self.clock())
        row.crashes += given.crashed
        if ending == "completed":
            self._finish(row, "done", None, given.result)
        elif ending in _ENDINGS:
            self._finish(row, _ENDINGS[ending], without_stack(given.error) or cancelled_by(reason))
        else:
            self._put_back(row, given)
        return Settled(row.id, row.run_no, row.state)

    def _put_back(self, row: Row, given: Settlement) -> None:
        row.holder = None
        row.error = without_stack(given.error) or row.error
        row.put_off = row.put_off + 1 if given.outcome == "postponed" else 0
        if given.outcome != "retried":
            row.attempt = max(0, row.attempt - 1)
        elif not given.crashed:
            row.suspect = False
        row.suspect = row.suspect or given.outcome == "suspected"
        if given.outcome not in _KEEPING_THEIR_PLACE:
            row.pos = next(self._numbers)
        waits = given.delay > 0
        row.state = "delayed" if waits else "ready"
        row.run_at = self.clock() + timedelta(seconds=given.delay) if waits else None

    def _finish(self, row: Row, state: State, error: dict[str, Any] | None, result: str | None = None) -> None:
        row.state, row.error, row.result, row.holder, row.run_at = state, error, result, None, None
        row.suspect = False
        row.finished_at = self.clock()
        self._finished[row.id] = self._live.pop(row.id)
        self._keys.pop((row.name, row.tenant or "", row.idempotency_key or ""), None)
        self._cancels.pop(row.id, None)

    def promote_due(self, limit: int) -> int:
        """Make delayed jobs that are due ready; returns how many."""
        with self._lock:
            due = [row for row in self._live.values() if row.state == "delayed" and due_time(row) <= self.clock()]
            for row in sorted(due, key=due_time)[:limit]:
                row.state, row.run_at, row.pos = "ready", None, next(self._numbers)
            return min(len(due), limit)

    def next_due(self) -> datetime | None:
        """When the next delayed job is due."""
        with self._lock:
            return min((due_time(row) for row in self._live.values() if row.state == "delayed"), default=None)

    def cancel(self, job_id: int, reason: str) -> CancelResult:
        """Cancel a waiting job now, or store the request for a running one."""
        with self._lock:
            row = self._live.get(job_id)
            if row is None:
                ended = self._finished.get(job_id)
                raise JobNotCancellable(job_id=job_id, state=ended.state) if ended else JobNotFound(job_id=job_id)
            if row.state == "running":
                self._cancels.setdefault(job_id, reason)
                return "requested"
            self._finish(row, "cancelled", cancelled_by(reason))
            return "cancelled"

    def cancel_requests(self, job_ids: Sequence[int]) -> dict[int, str]:
        """Which of these jobs somebody asked to cancel, with the reason."""
        with self._lock:
            return {job_id: self._cancels[job_id] for job_id in job_ids if job_id in self._cancels}

    def retry(self, job_id: int) -> int:
        """Put a dead or cancelled job back in line; the id of its live twin if its key is taken by now."""
        with self._lock:
            row = self._finished.get(job_id)
            if row is None or row.state == "done":
                raise JobNotFound(job_id=job_id)
            if twin := self._twin(row.name, row.tenant, row.idempotency_key):
                return twin.id
            row.state, row.pos, row.finished_at, row.started_at = "ready", next(self._numbers), None, None
            row.attempt = row.crashes = row.lost = row.put_off = 0
            self._add(self._finished.pop(job_id))
            return job_id

    def job(self, job_id: int) -> JobView | None:
        """One job, live or finished."""
        with self._lock:
            row = self._live.get(job_id) or self._finished.get(job_id)
            return view_of(row) if row else None

    def jobs(
        self, *, queue: str | None, name: str | None, state: Sequence[str], limit: int, before: int | None
    ) -> list[JobView]:
        """The newest jobs that match, by descending id."""
        with self._lock:
            rows = sorted([*self._live.values(), *self._finished.values()], key=lambda row: -row.id)
            wanted = [
                row
                for row in rows
                if (queue is None or row.queue == queue)
                and (name is None or row.name == name)
                and (not state or row.state in state)
                and (before is None or row.id < before)
            ]
            return [view_of(row) for row in wanted[:limit]]

    def close(self) -> None:
        """Nothing is open; the jobs stay."""
