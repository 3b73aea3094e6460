"""`stoker pg`: the embedded PostgreSQL by hand."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.errors import PlatformUnsupported

if TYPE_CHECKING:
    from stoker.embedded import StopReport

app = typer.Typer(name="pg", help="The embedded PostgreSQL: start, stop, psql, url.", no_args_is_help=True)

Root = Annotated[
    Path | None,
    typer.Option("--root", help="Its directory; else STOKER_PG_ROOT, else .stoker here (as root: /var/lib/stoker)."),
]


@app.callback()
def _every_command() -> None:
    """The embedded PostgreSQL: start, stop, psql, url."""
    if sys.platform == "win32":
        raise PlatformUnsupported(command="stoker pg", platform=sys.platform)


@app.command()
def start(root: Root = None) -> None:
    """Start it and keep it up until `stoker pg stop`; prints its URL."""
    from stoker import embedded

    typer.echo(embedded.start(root))


@app.command()
def stop(
    root: Root = None,
    force: Annotated[bool, typer.Option("--force", help="Stop it even while it is used.")] = False,
) -> None:
    """Stop it, unless somebody still uses it; waits until it is down."""
    from stoker import embedded

    report = embedded.stop(root, force=force)
    where = _directory(root)
    if report.stopped:
        typer.echo(f"Stopped the server in {where}." if report.was_running else f"No server runs in {where}.")
        return
    typer.echo(_still_up(report, where), err=True)
    raise typer.Exit(1)


@app.command()
def url(
    root: Root = None,
    start: Annotated[bool, typer.Option("--start", help="Start it if it does not run, as `stoker pg start`.")] = False,
) -> None:
    """Print its URL."""
    from stoker import embedded

    found = embedded.running_url(root) or (embedded.start(root) if start else None)
    if found is None:
        typer.echo(f"No server runs in {_directory(root)}. Start one: stoker pg start", err=True)
        raise typer.Exit(1)
    typer.echo(found)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context, root: Root = None) -> None:
    """Open psql on it, started if need be; it stays up as long as psql. Further arguments go to psql."""
    from stoker import embedded

    server = embedded.acquire(root)
    beside = server.bin / "psql"
    program = str(beside) if beside.exists() else shutil.which("psql")
    if program is None:
        server.close()
        typer.echo(f"There is no psql in {server.bin}, nor in PATH. Install a PostgreSQL client.", err=True)
        raise typer.Exit(1)
    server.keep_over_exec()
    os.execv(program, [program, "--dbname", server.url, *context.args])


def _still_up(report: StopReport, where: Path) -> str:
    if not report.in_use:
        return f"The server in {where} is still stopping."
    users = ", ".join(f"pid {user.pid} ({user.name})" for user in report.users) or "processes of another user"
    return f"The server in {where} is used by {users}. It stops with the last of them; --force stops it now."


def _directory(root: Path | None) -> Path:
    from stoker.embedded.paths import Layout

    return Layout.of(root).root
