"""Options that several commands share."""

import click

database_url = click.option(
    "--database-url", metavar="URL", help="The database; else STOKER_DATABASE_URL, stoker.toml, the embedded one."
)
config = click.option(
    "--config", metavar="FILE", help="The settings file; else STOKER_CONFIG, stoker.toml, pyproject.toml."
)
apps = click.option("--app", metavar="MODULE", multiple=True, help="A module that declares jobs; may be repeated.")
queues = click.option(
    "--queue",
    metavar="NAME=PROCESSES[xCONCURRENCY]",
    multiple=True,
    help="A queue to serve, such as io=1x50; may be repeated.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
