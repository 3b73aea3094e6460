"""`stoker queues`: what waits where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from stoker.console import options
from stoker.console.output import say_json, say_table
from stoker.settings import load

_COUNTS: Final = ("ready", "delayed", "running", "suspended", "blocked", "dead")


@click.group()
def queues() -> None:
    """Queues: ls."""


@queues.command()
@options.as_json
@options.database_url
@options.config
def ls(as_json: bool, database_url: str | None, config: str | None) -> None:
    """Count the jobs of every queue by state, as they are now."""
    from stoker.console.place import ask, reading
    from stoker.drivers.calls import Call
    from stoker.sql import statement

    call = Call(statement("count_queues"), {}, _read)
    with reading(load({"database_url": database_url, "config": config})) as session:
        found: list[dict[str, Any]] = ask(session, lambda driver: driver.run(call))
    if as_json:
        say_json(found)
        return
    columns = ("QUEUE", *map(str.upper, _COUNTS), "OLDEST READY")
    say_table(columns, map(_row, found), right=columns[1:])


def _read(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(("queue", *_COUNTS, "oldest_ready_seconds"), row, strict=True)) for row in rows]


def _row(queue: dict[str, Any]) -> tuple[str, ...]:
    from stoker.durations import format_duration

    oldest = queue["oldest_ready_seconds"]
    return (
        queue["queue"],
        *(str(queue[state]) for state in _COUNTS),
        "" if oldest is None else format_duration(round(oldest, 1)),
    )
