"""Options that several commands share."""

from typing import Annotated

import typer

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url", metavar="URL", help="The database; else STOKER_DATABASE_URL, stoker.toml, the embedded one."
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="The settings file; else STOKER_CONFIG, stoker.toml, pyproject.toml."
    ),
]
Apps = Annotated[
    list[str] | None, typer.Option("--app", metavar="MODULE", help="A module that declares jobs; may be repeated.")
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", metavar="NAME=PROCESSES[xCONCURRENCY]", help="A queue to serve, such as io=1x50; may be repeated."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobIds = Annotated[list[int], typer.Argument(metavar="ID…", help="The numbers that `stoker enqueue` printed.")]
