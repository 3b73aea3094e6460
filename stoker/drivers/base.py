"""What a queue driver stores, returns and promises."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

OnConflict = Literal["dedupe", "error", "replace"]
Outcome = Literal[
    "completed", "retried", "dead_lettered", "cancelled", "interrupted", "postponed", "handed_back", "suspected"
]
State = Literal["ready", "delayed", "running", "suspended", "blocked", "done", "dead", "cancelled"]

LIVE_STATES: tuple[State, ...] = ("ready", "delayed", "running", "suspended", "blocked")
FINISHED_STATES: tuple[State, ...] = ("done", "dead", "cancelled")


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    """A job to enqueue. `payload` is a JSON object as text.

    `run_at` (aware) or `delay` (seconds, on the database's clock) makes it wait.
    """

    name: str
    queue: str
    payload: str
    priority: int = 0
    run_at: datetime | None = None
    delay: float | None = None
    max_attempts: int = 20
    idempotency_key: str | None = None
    tenant: str | None = None
    on_conflict: OnConflict = "dedupe"


class Enqueued(Struct, frozen=True, gc=False):
    """`created` is False when a live job with the same key was returned instead."""

    id: int
    created: bool


class Holder(Struct, frozen=True):
    """Who holds a claim: a boot of a supervisor and the incarnation of one of its children."""

    host: int
    claim_no: int


class Claimed(Struct, frozen=True, gc=False):
    """A job as its claim returned it; `payload` is still text. `run_no` is the fence of every later write.

    `pos` is its place in line within its priority.
    """

    id: int
    run_no: int
    queue: str
    name: str
    payload: str
    attempt: int
    max_attempts: int
    priority: int
    tenant: str | None
    crashes: int
    put_off: int
    pos: int = 0


class Settlement(Struct, frozen=True, kw_only=True, gc=False):
    """How one run ended. `delay` in seconds; `error` a JSON object; `result` JSON text or None.

    An error of a cancel that has no `type` adds to who asked for it. The `stack` of any is kept with the attempt alone.
    """

    job_id: int
    run_no: int
    outcome: Outcome
    delay: float = 0.0
    error: dict[str, Any] | None = None
    result: str | None = None
    crashed: bool = False
    started_ago: float = 0.0


class Settled(Struct, frozen=True, gc=False):
    """A settlement that was accepted; `state` is what the job became. One that is missing was fenced off."""

    job_id: int
    run_no: int
    state: State


class JobView(Struct, frozen=True, kw_only=True):
    """One job as people see it.

    A `suspect` was executing, among others, in a process that died: it is run alone.
    """

    id: int
    name: str
    queue: str
    state: State
    attempt: int
    max_attempts: int
    priority: int
    run_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    tenant: str | None
    idempotency_key: str | None
    run_no: int
    crashes: int
    lost: int
    payload: Any
    error: Any
    result: Any
    suspect: bool = False
    attempts: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []


CancelResult = Literal["cancelled", "requested"]


class Driver(Protocol):
    """What every driver does the same way; one contract suite tests them all. Errors are StokerErrors."""

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, in order. Raises JobDuplicate for on_conflict="error"."""

    def claim(self, queue: str, limit: int, holder: Holder) -> list[Claimed]:
        """Mark up to `limit` ready jobs running for `holder`, in order of priority and place."""

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how runs ended. Fenced by run_no: what is missing in the answer was not ours any more."""

    def promote_due(self, limit: int) -> int:
        """Make delayed jobs that are due ready; returns how many."""

    def cancel(self, job_id: int, reason: str) -> CancelResult:
        """Cancel a waiting job now, or store the request for a running one. Raises JobNotCancellable, JobNotFound."""

    def cancel_requests(self, job_ids: Sequence[int]) -> dict[int, str]:
        """Which of these jobs somebody asked to cancel, with the reason."""

    def retry(self, job_id: int) -> int:
        """Put a dead or cancelled job back in line with all its attempts.

        Returns the id of the live job: a twin's when its key is taken by then. Raises JobNotFound.
        """

    def job(self, job_id: int) -> JobView | None:
        """One job, live or finished."""

    def jobs(
        self, *, queue: str | None, name: str | None, state: Sequence[str], limit: int, before: int | None
    ) -> list[JobView]:
        """The newest jobs that match, by descending id."""

    def close(self) -> None:
        """Give back what the driver opened itself."""
