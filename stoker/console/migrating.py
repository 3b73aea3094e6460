"""`stoker migrate`: bring the database up to this code."""

import click

from stoker.console import options
from stoker.console.output import say


@click.command()
@options.database_url
@options.config
def migrate(database_url: str | None, config: str | None) -> None:
    """Apply the migrations that are missing; two at once are safe. Without a URL: on the embedded PostgreSQL."""
    from stoker import settings
    from stoker.console.place import connected, holding_url
    from stoker.migrate import code_version
    from stoker.migrate import migrate as apply_missing

    known = settings.load({"database_url": database_url, "config": config})
    with holding_url(known) as url, connected(url) as conn:
        applied = apply_missing(conn)
    for name in applied:
        say(f"applied {name}")
    if not applied:
        say(f"up to date (schema {code_version()})")
