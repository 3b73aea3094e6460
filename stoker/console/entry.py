"""The `stoker` command: all its subcommands, and what a refusal looks like."""

import io
import sys
from typing import Annotated

import typer

from stoker.console.checking import check
from stoker.console.enqueueing import enqueue
from stoker.console.jobs import app as jobs
from stoker.console.migrating import migrate
from stoker.console.output import explain, say
from stoker.console.pg import app as pg
from stoker.console.queues import app as queues
from stoker.console.running import run
from stoker.errors import StokerError
from stoker.outlet import fill_standard_descriptors

app = typer.Typer(
    name="stoker",
    help="Background jobs on PostgreSQL, run by a supervisor that forks real worker processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run, check, migrate, enqueue):
    app.command()(command)
for group in (jobs, queues, pg):
    app.add_typer(group)


def main() -> None:
    """Run one command. What Stoker refuses is told on standard error, cause and fix, and ends with its exit code."""
    fill_standard_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except StokerError as error:
        explain(error)
        sys.exit(error.exit_code)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from stoker.migrate import code_version

        say(f"stoker {version('stoker')} (schema {code_version()})")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Background jobs on PostgreSQL, run by a supervisor that forks real worker processes."""
