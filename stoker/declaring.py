"""`@job`: declares a function as a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from msgspec import UNSET, UnsetType

from stoker import registry
from stoker.enqueue_options import Duration, Text
from stoker.job import Job
from stoker.retry import Retry
from stoker.settings.model import AckMode

P = ParamSpec("P")
R = TypeVar("R")


@overload
def job(fn: Callable[P, R], /) -> Job[P, R]: ...
@overload
def job(
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
) -> Callable[[Callable[P, R]], Job[P, R]]: ...
def job(fn: Callable[P, R] | None = None, /, **options: Any) -> Job[P, R] | Callable[[Callable[P, R]], Job[P, R]]:
    """Declare a module's function as a job: `(payload)` or `(payload, ctx)`, plain or `async def`.

    The payload's annotation decides what it is decoded into: a dict, a dataclass, a msgspec or pydantic type.
    `name` defaults to the function's name. `timeout` in seconds or as "5m". `idempotency_key` and `tenant` are text or
    a function of the payload. `ack="each"` writes that a run completed before the next one starts, instead of some
    20 ms of short runs together; `lease=True` never holds this job by a row lock. Raises JobDeclarationInvalid or
    JobNameTaken.
    """

    def declare(function: Callable[P, R]) -> Job[P, R]:
        declared = Job(function, **options)
        registry.current().add(declared)
        return declared

    return declare if fn is None else declare(fn)
