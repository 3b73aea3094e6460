"""`stoker enqueue`: one job from the shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stoker.console import options
from stoker.console.output import say
from stoker.console.refusals import PayloadNotJson, TimeUnreadable, TimeWithoutZone

if TYPE_CHECKING:
    from stoker.job import Job
    from stoker.settings import Settings


@click.command()
@click.argument("name")
@click.argument("payload", metavar="[JSON]", default="{}")
@options.apps
@click.option("--queue", metavar="NAME", help="Another queue.")
@click.option("--priority", type=int, help="Lower runs first; 0 is usual.")
@click.option("--delay", metavar="DURATION", help="Not before, such as 5m.")
@click.option("--run-at", metavar="TIME", help="Not before, such as 2030-01-31T08:00:00Z.")
@click.option("--key", "idempotency_key", help="The idempotency key.")
@click.option("--tenant", help="Whose job it is.")
@click.option("--on-conflict", help="When a live job has the key: dedupe, error or replace.")
@options.database_url
@options.config
def enqueue(
    name: str,
    payload: str,
    app: tuple[str, ...],
    run_at: str | None,
    database_url: str | None,
    config: str | None,
    **given: Any,
) -> None:
    """Enqueue a job and print its id.

    NAME is the job's name, JSON its payload: an object ({} if left out), or - to read one.

    With an application (--app or `app` in the settings) its declaration of the job counts: queue, retries, key.
    """
    from stoker import client, settings

    known = settings.load({"app": app or None, "database_url": database_url, "config": config})
    job = _find(name, known)
    given["run_at"] = None if run_at is None else _time(name, run_at)
    chosen = {option: value for option, value in given.items() if value is not None}
    with _queue_of(known):
        job_id = client.enqueue(job, _payload(name, payload), **chosen)
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
