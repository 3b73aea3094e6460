"""`stoker enqueue`: one job from the shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.console.options import Apps, Config, DatabaseUrl
from stoker.console.output import say
from stoker.console.refusals import PayloadNotJson, TimeUnreadable, TimeWithoutZone

if TYPE_CHECKING:
    from stoker.job import Job
    from stoker.settings import Settings


def enqueue(
    name: Annotated[str, typer.Argument(help="The job's name.")],
    payload: Annotated[str, typer.Argument(metavar="JSON", help="A JSON object, or - to read one.")] = "{}",
    app: Apps = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Another queue.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="Lower runs first; 0 is usual.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="DURATION", help="Not before, such as 5m.")] = None,
    run_at: Annotated[
        str | None, typer.Option("--run-at", metavar="TIME", help="Not before, such as 2030-01-31T08:00:00Z.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The idempotency key.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Whose job it is.")] = None,
    on_conflict: Annotated[
        str | None, typer.Option("--on-conflict", help="When a live job has the key: dedupe, error or replace.")
    ] = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Enqueue a job and print its id.

    With an application (--app or `app` in the settings) its declaration of the job counts: queue, retries, key.
    """
    from stoker import client, settings

    known = settings.load({"app": app, "database_url": database_url, "config": config})
    job = _find(name, known)
    given = {
        "queue": queue,
        "priority": priority,
        "delay": delay,
        "run_at": None if run_at is None else _time(name, run_at),
        "idempotency_key": key,
        "tenant": tenant,
        "on_conflict": on_conflict,
    }
    options: Any = {option: value for option, value in given.items() if value is not None}
    with _queue_of(known):
        job_id = client.enqueue(job, _payload(name, payload), **options)
    say(str(job_id))


@contextmanager
def _queue_of(settings: Settings) -> Iterator[None]:
    """Let the client use the database; the embedded one is started and migrated if need be."""
    from msgspec.structs import replace

    from stoker.console.place import connected, holding_url, reading
    from stoker.migrate import migrate

    with holding_url(settings) as url:
        if settings.database_url is None:
            with connected(url) as conn:
                migrate(conn)
        with reading(replace(settings, database_url=url)):
            yield


def _find(name: str, settings: Settings) -> Job[..., Any]:
    from stoker.console.application import load_application
    from stoker.enqueue_options import check_name, refuse_enqueue
    from stoker.errors import JobUnknown
    from stoker.job import Job

    check_name("name", name, refuse_enqueue(name))
    if not settings.app:
        return Job(_elsewhere, name=name)
    registry = load_application(settings.app)
    job = registry.get(name)
    if job is None:
        raise JobUnknown(name=name, known=registry.names())
    return job


def _elsewhere(payload: dict[str, Any]) -> None:
    """Stands for a handler that only the workers know."""


def _payload(name: str, text: str) -> Any:
    try:
        # Not orjson: it would round whole numbers that are too large, and this lets the library refuse them.
        return json.loads(sys.stdin.buffer.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise PayloadNotJson(name=name, detail=str(error)) from error


def _time(name: str, text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise TimeUnreadable(name=name, value=text) from error
    if when.tzinfo is None:
        raise TimeWithoutZone(value=when)
    return when
