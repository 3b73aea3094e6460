"""Checks of one setting against another, made when each is right by itself."""

from collections.abc import Iterator

from stoker.durations import format_duration
from stoker.settings.model import Settings


def conflicts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys of every conflict, the one to correct first, and what must hold between them."""
    if settings.lease < 3 * settings.renew_every:
        need = format_duration(3 * settings.renew_every)
        yield ("lease", "renew_every"), f"must be at least three times renew_every ({need}), {_is(settings.lease)}"
    if settings.lease <= settings.kill_after + 2:
        need = format_duration(settings.kill_after + 2)
        yield ("lease", "kill_after"), f"must be longer than kill_after + 2s ({need}), {_is(settings.lease)}"
    if settings.direct_database_url and not settings.database_url:
        keys = ("direct_database_url", "database_url")
        yield keys, "needs database_url; without it the embedded PostgreSQL is used"
    if settings.max_result > settings.max_payload:
        yield ("max_result", "max_payload"), f"must not be larger than max_payload ({settings.max_payload})"
    for name, queue in settings.queues.items():
        if queue.max_rss and queue.kill_rss and queue.kill_rss <= queue.max_rss:
            keys = (f"queues.{name}.kill_rss", f"queues.{name}.max_rss")
            yield keys, f"must be larger than max_rss ({queue.max_rss}), or no worker is replaced before it is killed"


def _is(seconds: float) -> str:
    return f"it is {format_duration(seconds)}"
