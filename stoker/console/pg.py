"""`stoker pg`: the embedded PostgreSQL by hand."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.errors import PlatformUnsupported

if TYPE_CHECKING:
    from stoker.embedded import StopReport

_root = click.option(
    "--root",
    type=click.Path(path_type=Path),
    help="Its directory; else STOKER_PG_ROOT, else .stoker here (as root: /var/lib/stoker).",
)


@click.group()
def pg() -> None:
    """The embedded PostgreSQL: start, stop, psql, url."""
    if sys.platform == "win32":
        raise PlatformUnsupported(command="stoker pg", platform=sys.platform)


@pg.command()
@_root
def start(root: Path | None) -> None:
    """Start it and keep it up until `stoker pg stop`; prints its URL."""
    from stoker import embedded

    click.echo(embedded.start(root))


@pg.command()
@_root
@click.option("--force", is_flag=True, help="Stop it even while it is used.")
def stop(root: Path | None, force: bool) -> None:
    """Stop it, unless somebody still uses it; waits until it is down."""
    from stoker import embedded

    report = embedded.stop(root, force=force)
    where = _directory(root)
    if report.stopped:
        click.echo(f"Stopped the server in {where}." if report.was_running else f"No server runs in {where}.")
        return
    click.echo(_still_up(report, where), err=True)
    sys.exit(1)


@pg.command()
@_root
@click.option("--start", is_flag=True, help="Start it if it does not run, as `stoker pg start`.")
def url(root: Path | None, start: bool) -> None:
    """Print its URL."""
    from stoker import embedded

    found = embedded.running_url(root) or (embedded.start(root) if start else None)
    if found is None:
        click.echo(f"No server runs in {_directory(root)}. Start one: stoker pg start", err=True)
        sys.exit(1)
    click.echo(found)


@pg.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@_root
@click.pass_context
def psql(context: click.Context, root: Path | None) -> None:
    """Open psql on it, started if need be; it stays up as long as psql. Further arguments go to psql."""
    from stoker import embedded

    server = embedded.acquire(root)
    beside = server.bin / "psql"
    program = str(beside) if beside.exists() else shutil.which("psql")
    if program is None:
        server.close()
        click.echo(f"There is no psql in {server.bin}, nor in PATH. Install a PostgreSQL client.", err=True)
        sys.exit(1)
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
