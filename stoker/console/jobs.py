"""`stoker jobs`: list them, look at one, put them back in line, cancel them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final, get_args

import click

from stoker.console import options
from stoker.console.output import complain, cut, explain, in_json, local_time, say, say_json, say_table
from stoker.drivers.base import JobView, State
from stoker.errors import FAILED, JobNotFound, StokerError
from stoker.settings import load

_CELL: Final = 48

_job_ids = click.argument("job_ids", metavar="ID…", type=int, nargs=-1, required=True)


@click.group()
def jobs() -> None:
    """Jobs: ls, show, retry, cancel."""


@jobs.command()
@click.option("--queue", help="Only of this queue.")
@click.option("--name", help="Only with this name.")
@click.option(
    "--state",
    "states",
    metavar="STATE",
    type=click.Choice(get_args(State)),
    multiple=True,
    help="Only in this state, such as dead; may be repeated.",
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", type=click.IntRange(1, 2**63 - 1), help="Only older ones than this.")
@options.as_json
@options.database_url
@options.config
def ls(
    queue: str | None,
    name: str | None,
    states: tuple[State, ...],
    limit: int,
    before: int | None,
    as_json: bool,
    database_url: str | None,
    config: str | None,
) -> None:
    """List jobs, the newest first."""
    from stoker.console.place import ask, reading

    with reading(load({"database_url": database_url, "config": config})) as session:
        found: list[JobView] = ask(
            session,
            lambda driver: driver.jobs(queue=queue, name=name, state=states, limit=limit, before=before),
        )
    if as_json:
        say_json(found)
        return
    columns = ("ID", "NAME", "QUEUE", "STATE", "ATTEMPT", "TIME", "PAYLOAD", "ERROR")
    say_table(columns, map(_row, found), right=("ID",))
    if len(found) == limit:
        complain(f"There may be more: --before {found[-1].id}, or a larger --limit.")


@jobs.command()
@click.argument("job_id", metavar="ID", type=int)
@options.as_json
@options.database_url
@options.config
def show(job_id: int, as_json: bool, database_url: str | None, config: str | None) -> None:
    """Show everything that is stored about a job."""
    from stoker import client
    from stoker.console.place import reading

    with reading(load({"database_url": database_url, "config": config})):
        view = client.get(job_id)
    if view is None:
        raise JobNotFound(job_id=job_id)
    if as_json:
        say_json(view)
        return
    from stoker.console.job_sheet import job_sheet

    say(job_sheet(view))


@jobs.command()
@_job_ids
@options.database_url
@options.config
def retry(job_ids: tuple[int, ...], database_url: str | None, config: str | None) -> None:
    """Put dead or cancelled jobs back in line, with all their attempts.

    ID… are numbers that `stoker enqueue` printed.
    """

    def put_back(job_id: int) -> str:
        from stoker import client

        live = client.retry(job_id)
        twin = f": job {live}, which has the same key, stands for it" if live != job_id else ""
        return f"{job_id} is back in line{twin}"

    _for_each(job_ids, put_back, database_url, config)


@jobs.command()
@_job_ids
@click.option("--reason", default="", help="Stored with the job.")
@options.database_url
@options.config
def cancel(job_ids: tuple[int, ...], reason: str, database_url: str | None, config: str | None) -> None:
    """Cancel waiting jobs, and ask running ones to end.

    ID… are numbers that `stoker enqueue` printed.
    """

    def end(job_id: int) -> str:
        from stoker import client

        at_once = client.cancel(job_id, reason) == "cancelled"
        return f"{job_id} is cancelled" if at_once else f"{job_id} is running and was asked to end"

    _for_each(job_ids, end, database_url, config)


def _for_each(job_ids: Sequence[int], act: Callable[[int], str], database_url: str | None, config: str | None) -> None:
    """Act on every job, whatever becomes of the others; 1 at the end if one was refused."""
    from stoker.console.place import reading

    failed = False
    with reading(load({"database_url": database_url, "config": config})):
        for job_id in job_ids:
            try:
                say(act(job_id))
            except StokerError as error:
                if not error.terminal:  # It is not about this job.
                    raise
                failed = True
                explain(error)
    if failed:
        sys.exit(FAILED)


def _row(view: JobView) -> tuple[str, ...]:
    waits = view.state == "delayed"
    when = view.run_at if waits else view.finished_at or view.started_at or view.created_at
    said = view.error if view.state != "done" and isinstance(view.error, dict) else {}
    error = ": ".join(str(said[part]) for part in ("type", "message") if said.get(part))
    return (
        str(view.id),
        cut(view.name, _CELL),
        cut(view.queue, _CELL),
        view.state,
        f"{view.attempt}/{view.max_attempts}",
        f"{'due ' * waits}{local_time(when)}",
        cut(in_json(view.payload), _CELL),
        cut(error, _CELL),
    )
