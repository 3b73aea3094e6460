"""A declared job: a function that can be enqueued, and stays that function when it is called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast

from msgspec import UNSET, UnsetType

from stoker.drivers.base import Enqueued, NewJob
from stoker.enqueue_options import (
    MOST_KEY_BYTES,
    Duration,
    EnqueueOptions,
    Refuse,
    Text,
    check_ack,
    check_attempts,
    check_due,
    check_flag,
    check_known,
    check_name,
    check_on_conflict,
    check_priority,
    check_queue,
    check_seconds,
    check_text,
    refuse_declaration,
    refuse_enqueue,
    resolve_text,
)
from stoker.errors import IdempotencyRequired, JobTenantRequired
from stoker.handlers import read_handler
from stoker.payloads import encode
from stoker.retry import Retry
from stoker.session import current_session
from stoker.settings import Settings
from stoker.settings.model import AckMode

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULTS = Settings()


class Job(Generic[P, R]):
    """A declared job. Calling it calls the function; `enqueue` and its kin store it for a worker."""

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        idempotency_key: Text | UnsetType = UNSET,
        tenant: Text | UnsetType = UNSET,
        ack: AckMode = "batch",
        lease: bool = False,
    ) -> None:
        named = getattr(fn, "__name__", repr(fn)) if name is None else name
        refuse = refuse_declaration(named)
        self.name = check_name("name", named, refuse)
        handler = read_handler(fn, name=self.name)
        self.fn = fn
        self.is_async, self.takes_ctx, self.decode = handler.is_async, handler.takes_ctx, handler.decode
        self.queue = check_queue(queue, refuse)
        self.priority = check_priority(priority, refuse)
        self.retry = Retry() if retry is None else retry
        if not isinstance(self.retry, Retry):
            raise refuse("retry", f"{retry!r} is no Retry(…)")
        self.timeout = None if timeout is None else check_seconds("timeout", timeout, refuse)
        if self.timeout == 0:
            raise refuse("timeout", "0 s would stop every run; None means no timeout")
        check_text("idempotency_key", idempotency_key, refuse, MOST_KEY_BYTES)
        check_text("tenant", tenant, refuse)
        self.idempotency_key, self.tenant = idempotency_key, tenant
        self.ack_each, self.lease = check_ack(ack, refuse) == "each", check_flag("lease", lease, refuse)
        functools.update_wrapper(cast(Any, self), fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, for tests and for code that needs no queue."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.name!r} on queue {self.queue!r}>"

    def new_job(
        self, payload: Any = UNSET, *, settings: Settings = _DEFAULTS, **options: Unpack[EnqueueOptions]
    ) -> NewJob:
        """Check a payload and options and return what a driver stores. Pure: nothing is enqueued.

        Without a payload it is `{}`. Raises PayloadInvalid, NaiveDatetime, EnqueueInvalid, IdempotencyRequired,
        JobTenantRequired.
        """
        return self._maker(options, settings)(payload)

    def _maker(self, options: EnqueueOptions, settings: Settings) -> Callable[[Any], NewJob]:
        """Check what holds for every payload; the function that makes a job of one checks the rest."""
        refuse = refuse_enqueue(self.name)
        given = self._given(options, refuse)
        key = options.get("idempotency_key", self.idempotency_key)
        if key is UNSET and settings.require_idempotency:
            raise IdempotencyRequired(name=self.name)
        tenant = options.get("tenant", self.tenant)

        def make(payload: Any) -> NewJob:
            payload = {} if payload is UNSET else payload
            text = encode(payload, name=self.name, limit=settings.max_payload)
            owner = None if tenant is UNSET else resolve_text("tenant", tenant, payload, refuse)
            if owner is None and settings.require_tenant:
                raise JobTenantRequired(name=self.name)
            if key is not UNSET:
                given["idempotency_key"] = resolve_text("idempotency_key", key, payload, refuse, MOST_KEY_BYTES)
            return NewJob(name=self.name, payload=text, tenant=owner, **given)

        return make

    def _given(self, options: EnqueueOptions, refuse: Refuse) -> dict[str, Any]:
        """What the declaration says, and in its place the options."""
        given: dict[str, Any] = {"queue": self.queue, "priority": self.priority, "max_attempts": self.retry.attempts}
        if not options:
            return given
        check_known(options.keys(), refuse)
        if "queue" in options:
            given["queue"] = check_queue(options["queue"], refuse)
        if "priority" in options:
            given["priority"] = check_priority(options["priority"], refuse)
        if options.get("max_attempts") is not None:
            given["max_attempts"] = check_attempts(options["max_attempts"], refuse)
        given["run_at"], given["delay"] = check_due(options.get("run_at"), options.get("delay"), refuse)
        given["on_conflict"] = check_on_conflict(options.get("on_conflict", "dedupe"), refuse)
        return given

    def enqueue(self, payload: Any = UNSET, *, conn: Any = None, **options: Unpack[EnqueueOptions]) -> int:
        """Store one job and return its id.

        With `conn` (psycopg, SQLAlchemy or Django) it is part of the caller's transaction: it exists when that commits.
        The id is that of the live job when one holds the idempotency key. An answer lost on the way raises
        DriverUnavailable; then the job may have been stored or not, and an idempotency key makes it safe to try again.
        """
        session = current_session()
        jobs = [self.new_job(payload, settings=session.settings, **options)]
        return session.run(_storing(jobs), conn=conn)[0].id

    async def enqueue_async(self, payload: Any = UNSET, *, conn: Any = None, **options: Unpack[EnqueueOptions]) -> int:
        """The async twin of `enqueue`."""
        session = current_session()
        jobs = [self.new_job(payload, settings=session.settings, **options)]
        return (await session.run_async(_storing(jobs), conn=conn))[0].id

    def enqueue_many(
        self, payloads: Iterable[Any], *, conn: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Store many jobs at once, all or none, and return their ids in order. The options hold for each of them.

        By COPY, or in one statement if they have keys. Raises JobDuplicate for on_conflict="error": then none is
        stored, and the caller's transaction can go on.
        """
        session = current_session()
        jobs = self._new_jobs(payloads, session.settings, options)
        return [stored.id for stored in session.run(_storing(jobs), conn=conn)] if jobs else []

    async def enqueue_many_async(
        self, payloads: Iterable[Any], *, conn: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """The async twin of `enqueue_many`."""
        session = current_session()
        jobs = self._new_jobs(payloads, session.settings, options)
        return [stored.id for stored in await session.run_async(_storing(jobs), conn=conn)] if jobs else []

    def _new_jobs(self, payloads: Iterable[Any], settings: Settings, options: EnqueueOptions) -> list[NewJob]:
        if isinstance(options.get("idempotency_key"), str):
            raise refuse_enqueue(self.name)("idempotency_key", "many payloads cannot share one key; pass a function")
        make = self._maker(options, settings)
        return [make(payload) for payload in payloads]


def _storing(jobs: list[NewJob]) -> Callable[[Any], list[Enqueued]]:
    # The async driver answers the same call with an awaitable.
    return lambda driver: driver.enqueue(jobs)
