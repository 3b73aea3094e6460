"""`stoker jobs`: list them, look at one, put them back in line, cancel them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, get_args

import typer

from stoker.console.options import AsJson, Config, DatabaseUrl, JobIds
from stoker.console.output import complain, cut, explain, in_json, local_time, say, say_json, say_table
from stoker.drivers.base import JobView, State
from stoker.errors import FAILED, JobNotFound, StokerError
from stoker.settings import load

app = typer.Typer(name="jobs", help="Jobs: ls, show, retry, cancel.", no_args_is_help=True)

_CELL: Final = 48


def _known_states(states: list[str] | None) -> list[str] | None:
    for state in states or ():
        if state not in get_args(State):
            raise typer.BadParameter(f"{state!r} is none of {', '.join(get_args(State))}")
    return states


@app.command()
def ls(
    queue: Annotated[str | None, typer.Option("--queue", help="Only of this queue.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only with this name.")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", callback=_known_states, help="Only in this state, such as dead; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 20,
    before: Annotated[
        int | None, typer.Option("--before", metavar="ID", min=1, max=2**63 - 1, help="Only older ones than this.")
    ] = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """List jobs, the newest first."""
    from stoker.console.place import ask, reading

    with reading(load({"database_url": database_url, "config": config})) as session:
        found: list[JobView] = ask(
            session,
            lambda driver: driver.jobs(queue=queue, name=name, state=state or (), limit=limit, before=before),
        )
    if as_json:
        say_json(found)
        return
    columns = ("ID", "NAME", "QUEUE", "STATE", "ATTEMPT", "TIME", "PAYLOAD", "ERROR")
    say_table(columns, map(_row, found), right=("ID",))
    if len(found) == limit:
        complain(f"There may be more: --before {found[-1].id}, or a larger --limit.")


@app.command()
def show(
    job_id: Annotated[int, typer.Argument(metavar="ID")],
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
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


@app.command()
def retry(job_ids: JobIds, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Put dead or cancelled jobs back in line, with all their attempts."""

    def put_back(job_id: int) -> str:
        from stoker import client

        live = client.retry(job_id)
        twin = f": job {live}, which has the same key, stands for it" if live != job_id else ""
        return f"{job_id} is back in line{twin}"

    _for_each(job_ids, put_back, database_url, config)


@app.command()
def cancel(
    job_ids: JobIds,
    reason: Annotated[str, typer.Option("--reason", help="Stored with the job.")] = "",
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Cancel waiting jobs, and ask running ones to end."""

    def end(job_id: int) -> str:
        from stoker import client

        at_once = client.cancel(job_id, reason) == "cancelled"
        return f"{job_id} is cancelled" if at_once else f"{job_id} is running and was asked to end"

    _for_each(job_ids, end, database_url, config)


def _for_each(job_ids: list[int], act: Callable[[int], str], database_url: str | None, config: str | None) -> None:
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
        raise typer.Exit(FAILED)


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
