"""The `stoker` command: all its subcommands, and what a refusal looks like."""

import io
import sys
from importlib import import_module
from typing import Any, Final

import click

from stoker.errors import StokerError
from stoker.outlet import fill_standard_descriptors

# The modules, by the command of theirs; in this order help lists them.
_MODULES: Final = {
    "run": "running",
    "check": "checking",
    "migrate": "migrating",
    "enqueue": "enqueueing",
    "jobs": "jobs",
    "queues": "queues",
    "pg": "pg",
}
_INTERRUPTED: Final = 130


class _Commands(click.Group):
    """Commands whose modules are imported when they are asked for: `stoker run` waits for no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        command: click.Command = getattr(import_module(f"stoker.console.{_MODULES[cmd_name]}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)


def main() -> None:
    """Run one command. What Stoker refuses is told on standard error, cause and fix, and ends with its exit code."""
    fill_standard_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        stoker()
    except StokerError as error:
        from stoker.console.output import explain

        explain(error)
        sys.exit(error.exit_code)


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from stoker.console.output import say
        from stoker.migrate import code_version

        say(f"stoker {version('stoker')} (schema {code_version()})")
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def stoker() -> None:
    """Background jobs on PostgreSQL, run by a supervisor that forks real worker processes."""
