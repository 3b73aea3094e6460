"""`stoker run`: checks the settings, then turns this process into the supervisor."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
import orjson

from stoker import settings
from stoker.console import options
from stoker.errors import PlatformUnsupported, Problem, SettingsInvalid

if TYPE_CHECKING:
    from stoker.embedded import Server

# The supervisor reads these two and passes them to nobody.
OVERRIDES: Final = "STOKER_RUN_OVERRIDES"
EMBEDDED_LOCK: Final = "STOKER_EMBEDDED_LOCK_FD"


@click.command()
@options.queues
@options.apps
@click.option("--grace", metavar="DURATION", help="What SIGTERM leaves to running jobs; 25s.")
@click.option("--health", metavar="HOST:PORT", help="Where /readyz answers, or off.")
@options.database_url
@options.config
def run(queue: tuple[str, ...], **flags: Any) -> None:
    """Run the supervisor with its workers until SIGTERM. Without a database URL on the embedded PostgreSQL."""
    if sys.platform != "linux":
        raise PlatformUnsupported(command="stoker run", platform=sys.platform)
    become_supervisor({name: value for name, value in {"queues": queue, **flags}.items() if value})


def become_supervisor(overrides: dict[str, Any]) -> NoReturn:
    """Exec `python -m supervisor` with these settings before all others. Raises SettingsInvalid first."""
    known = settings.load(overrides, read_again=True)
    if not known.app:
        nothing = "no module is named that declares jobs, so there is nothing to run; for example --app shop.jobs"
        raise SettingsInvalid(problems=[Problem("", "app", nothing)])
    environ = dict(os.environ)
    if known.database_url is None:
        server = _embedded_server()
        overrides = {**overrides, "database_url": server.url}
        environ[EMBEDDED_LOCK] = str(server.keep_over_exec())
    # Not in argv, which everybody on the machine can read.
    environ[OVERRIDES] = orjson.dumps(overrides).decode()
    # An interpreter that starts ends of these or, at a bad moment, forgets them; blocked, they wait for its first line.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT))
    try:
        os.execve(sys.executable, [sys.executable, "-m", "supervisor"], environ)
    finally:
        # Whoever could not become the supervisor still hears them.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _embedded_server() -> Server:
    """The server, started if need be. The keeper brings the schema up to date, as on any other."""
    from stoker import embedded

    return embedded.acquire()
