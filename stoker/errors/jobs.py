"""Errors of declaring and enqueueing jobs: the caller sees them."""

from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Literal

from stoker.errors.base import CONFIG, StokerError, sentence

PayloadFault = Literal["not_object", "not_json", "nul", "not_finite", "surrogate", "too_large", "unfit"]

_PAYLOAD_FAULTS: dict[PayloadFault, tuple[str, str]] = {
    "not_object": ("is not a JSON object", "Pass a dict with string keys, for example {{'value': …}}."),
    "not_json": ("cannot be written as JSON", "Pass only dicts, lists, strings, numbers, booleans and None."),
    "nul": ("contains a NUL character, which PostgreSQL cannot store", "Remove it or encode the bytes as base64."),
    "not_finite": ("contains NaN or Infinity, which JSON does not have", "Pass None or a string instead."),
    "surrogate": ("contains a lone surrogate, which is not valid text", "Decode with errors='replace' first."),
    "too_large": (
        "has {size} bytes; the limit is {limit}",
        "Store the data elsewhere and pass a reference, or raise max_payload in stoker.toml.",
    ),
    "unfit": (
        "does not fit the type its handler declares",
        "Enqueue what the handler expects, or let its annotation accept what is already enqueued.",
    ),
}


class JobDuplicate(StokerError):
    """A live job already holds the idempotency key and the caller asked for an error."""

    code = "STOKER_JOB_DUPLICATE"

    def __init__(self, *, name: str, key: str, job_id: int, tenant: str | None = None) -> None:
        self.job_id = job_id
        whose = f" of tenant {tenant!r}" if tenant is not None else ""
        super().__init__(
            cause=f"Job {name!r} with idempotency key {key!r}{whose} is already waiting or running as job {job_id}.",
            fix="Use on_conflict='dedupe' to get the id of that job, or wait until it has finished.",
        )


class JobNameTaken(StokerError):
    """Two handlers were declared under one name."""

    code = "STOKER_JOB_NAME_TAKEN"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, name: str, first: str, second: str) -> None:
        super().__init__(
            cause=f"The job name {name!r} is declared twice: by {first} and by {second}.",
            fix="Give one of them another name with @job(name=…).",
        )


class JobUnknown(StokerError):
    """No loaded module declares a job of this name."""

    code = "STOKER_JOB_UNKNOWN"
    terminal = True

    def __init__(self, *, name: str, known: Sequence[str] = ()) -> None:
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}? Otherwise name" if near else "Name"
        super().__init__(
            cause=f"No job named {name!r} is declared in the loaded modules.",
            fix=f"{hint} the module that declares it with --app MODULE or `app` in stoker.toml.",
        )


class JobDeclarationInvalid(StokerError):
    """A declaration has an argument that cannot work; `name` is None where the job is not known yet."""

    code = "STOKER_JOB_DECLARATION_INVALID"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, name: str | None, argument: str, problem: str) -> None:
        whose = repr(name) if name is not None else "the job"
        super().__init__(
            cause=f"{f'Job {name!r}' if name is not None else 'A job'} is declared with a wrong {argument!r}: "
            f"{sentence(problem)}",
            fix=f"Correct {argument!r} in the declaration of {whose}.",
        )


class EnqueueInvalid(StokerError):
    """An option of an enqueue cannot work; nothing was enqueued."""

    code = "STOKER_ENQUEUE_INVALID"
    terminal = True

    def __init__(self, *, name: str, argument: str, problem: str) -> None:
        super().__init__(
            cause=f"Job {name!r} cannot be enqueued with this {argument!r}: {sentence(problem)}",
            fix=f"Correct {argument!r} in the call, or in the declaration of {name!r} if it comes from there.",
        )


class ConnectionUnusable(StokerError):
    """The connection passed as `conn` is none that jobs can be stored over."""

    code = "STOKER_CONNECTION_UNUSABLE"
    terminal = True

    def __init__(self, *, kind: str, wanted: str) -> None:
        super().__init__(
            cause=f"The connection given as conn= is a {kind}, which leads to no open {wanted}.",
            fix="Pass a psycopg 3 connection, or a SQLAlchemy or Django connection that uses psycopg 3; "
            "sync ones to enqueue, async ones to enqueue_async.",
        )


class IdempotencyRequired(StokerError):
    """The settings demand an idempotency key from every job."""

    code = "STOKER_IDEMPOTENCY_REQUIRED"
    terminal = True

    def __init__(self, *, name: str) -> None:
        super().__init__(
            cause=f"Job {name!r} has no idempotency key, and the setting require_idempotency is on.",
            fix="Add idempotency_key=… to its @job, or pass it to enqueue; None says on purpose that there is none.",
        )


class JobTenantRequired(StokerError):
    """The settings demand a tenant from every job."""

    code = "STOKER_JOB_TENANT_REQUIRED"
    terminal = True

    def __init__(self, *, name: str) -> None:
        super().__init__(
            cause=f"Job {name!r} was enqueued without a tenant, and the setting require_tenant is on.",
            fix="Add tenant=… to its @job, or pass tenant= to enqueue.",
        )


class PayloadInvalid(StokerError):
    """The payload cannot be stored (then nothing was enqueued), or its handler cannot take it."""

    code = "STOKER_PAYLOAD_INVALID"
    terminal = True

    def __init__(self, *, name: str, fault: PayloadFault, detail: str = "", size: int = 0, limit: int = 0) -> None:
        self.fault = fault
        cause, fix = (text.format(size=f"{size:,}", limit=f"{limit:,}") for text in _PAYLOAD_FAULTS[fault])
        super().__init__(
            cause=sentence(f"The payload for job {name!r} {cause}" + f": {detail}" * bool(detail)), fix=fix
        )


class NaiveDatetime(StokerError):
    """A time without a zone: which instant it means is anybody's guess."""

    code = "STOKER_NAIVE_DATETIME"
    terminal = True

    def __init__(self, *, argument: str, value: datetime) -> None:
        super().__init__(
            cause=f"{argument} is {value.isoformat()}, a time without a time zone.",
            fix="Pass an aware time, for example datetime.now(timezone.utc) + timedelta(minutes=5).",
        )
