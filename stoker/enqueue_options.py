"""The options of an enqueue and of a declaration: one check for both, so that a mistake is told where it is made."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, KeysView
from datetime import datetime, timedelta
from typing import Any, TypedDict, get_args

from msgspec import UNSET, UnsetType

from stoker.drivers.base import OnConflict
from stoker.durations import parse_duration
from stoker.errors import EnqueueInvalid, JobDeclarationInvalid, NaiveDatetime, StokerError
from stoker.retry import MOST_ATTEMPTS
from stoker.settings.draft import QUEUE_NAME
from stoker.settings.model import AckMode

Text = str | Callable[[Any], str | None] | None
Duration = float | str | timedelta
Refuse = Callable[[str, str], StokerError]

LONGEST_DELAY = 100 * 366 * 86_400.0
MOST_KEY_BYTES = 1024
MOST_NAME_BYTES = 200

_RULES = get_args(OnConflict)
_UNFIT = re.compile("[\x00\ud800-\udfff]")


class EnqueueOptions(TypedDict, total=False):
    """How one enqueue differs from the declaration.

    `priority`: lower runs first. `run_at` (an aware time) or `delay` (seconds, "5m", a timedelta; on the database's
    clock) makes the job wait. `idempotency_key` and `tenant`: text, or a function of the payload; None on purpose means
    none. `on_conflict`: what happens if a live job holds the key: "dedupe" returns its id, "error" raises JobDuplicate,
    "replace" updates it while it waits and nobody has its row locked. An enqueue waits for an open transaction that has
    stored the same key, and for nothing else. `max_attempts` replaces the attempts of the job's Retry.
    """

    priority: int
    run_at: datetime | None
    delay: Duration | None
    queue: str
    idempotency_key: Text
    tenant: Text
    on_conflict: OnConflict
    max_attempts: int | None


def refuse_declaration(name: str) -> Refuse:
    """Mistakes in a declaration."""
    return lambda argument, problem: JobDeclarationInvalid(name=name, argument=argument, problem=problem)


def refuse_enqueue(name: str) -> Refuse:
    """Mistakes in a call of enqueue."""
    return lambda argument, problem: EnqueueInvalid(name=name, argument=argument, problem=problem)


def check_priority(value: object, refuse: Refuse) -> int:
    """-32768 to 32767; lower runs first."""
    return _whole("priority", value, -32_768, 32_767, refuse)


def check_ack(value: object, refuse: Refuse) -> AckMode:
    """When a completion is written: with its batch, or before the next job starts."""
    if value not in ("batch", "each"):
        raise refuse("ack", f"{value!r:.80} is neither 'batch' nor 'each'")
    return value


def check_flag(argument: str, value: object, refuse: Refuse) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise refuse(argument, f"{value!r:.80} is neither True nor False")
    return value


def check_attempts(value: object, refuse: Refuse) -> int:
    """How often a job may be tried."""
    return _whole("max_attempts", value, 1, MOST_ATTEMPTS, refuse)


def check_name(argument: str, value: object, refuse: Refuse, most: int = MOST_NAME_BYTES) -> str:
    """Text that is stored and indexed."""
    if not isinstance(value, str):
        raise refuse(argument, f"{value!r:.80} is not text")
    if not value or _UNFIT.search(value):
        raise refuse(argument, f"{value!r:.80} is empty or contains what PostgreSQL cannot store")
    if len(value.encode()) > most:
        raise refuse(argument, f"it has {len(value.encode()):,} bytes; the limit is {most:,}")
    return value


def check_queue(value: object, refuse: Refuse) -> str:
    """A name that settings can name too: workers could not serve another."""
    if not isinstance(value, str) or not QUEUE_NAME.fullmatch(value):
        raise refuse("queue", f"{value!r:.80} is not a name of 1 to 63 letters, digits, _ . or -")
    return value


def check_known(options: KeysView[str], refuse: Refuse) -> None:
    """Refuse an option that does not exist: a misspelt one would be left out without a word."""
    for unknown in options - EnqueueOptions.__annotations__.keys():
        raise refuse(unknown, f"there is no such option; there are {', '.join(EnqueueOptions.__annotations__)}")


def check_seconds(argument: str, value: Duration, refuse: Refuse, most: float = LONGEST_DELAY) -> float:
    """Read a duration as seconds, from 0 up."""
    try:
        seconds = parse_duration(value.total_seconds() if isinstance(value, timedelta) else value)
    except ValueError as error:
        raise refuse(argument, str(error)) from error
    if seconds > most:
        raise refuse(argument, f"{value!r} is longer than {most / 86_400:,.0f} days")
    return seconds


def check_on_conflict(value: OnConflict, refuse: Refuse) -> OnConflict:
    """One of the three rules."""
    if value not in _RULES:
        raise refuse("on_conflict", f"{value!r} is none of {', '.join(_RULES)}")
    return value


def check_due(run_at: datetime | None, delay: Duration | None, refuse: Refuse) -> tuple[datetime | None, float | None]:
    """At most one of the two; a time must have its zone."""
    if run_at is not None and delay is not None:
        raise refuse("delay", "run_at is given as well; give one of them")
    if run_at is not None:
        if not isinstance(run_at, datetime):
            raise refuse("run_at", f"{run_at!r:.80} is no datetime")
        if run_at.tzinfo is None or run_at.utcoffset() is None:
            raise NaiveDatetime(argument="run_at", value=run_at)
        if run_at.timestamp() - time.time() > LONGEST_DELAY:
            raise refuse("run_at", f"{run_at} is further away than {LONGEST_DELAY / 86_400:,.0f} days")
        return run_at, None
    return None, None if delay is None else check_seconds("delay", delay, refuse)


def resolve_text(
    argument: str, given: Text | UnsetType, payload: Any, refuse: Refuse, most: int = MOST_NAME_BYTES
) -> str | None:
    """The text itself, or what the function makes of the payload."""
    if given is UNSET or given is None:
        return None
    value = given(payload) if callable(given) else given
    return None if value is None else check_name(argument, value, refuse, most)


def check_text(argument: str, given: object, refuse: Refuse, most: int = MOST_NAME_BYTES) -> None:
    """What a declaration says: nothing, text, or a function that will make text of a payload."""
    if given is not UNSET and given is not None and not callable(given):
        check_name(argument, given, refuse, most)


def _whole(argument: str, value: object, low: int, high: int, refuse: Refuse) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refuse(argument, f"{value!r:.80} is not a whole number between {low:,} and {high:,}")
    return value
