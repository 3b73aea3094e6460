"""The signal table: what each signal to the supervisor means."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from stoker import logs
from stoker.errors import StokerError
from stoker.settings import Settings
from supervisor import capacity
from supervisor.announcing import Announcer
from supervisor.drain import Request
from supervisor.forkers import Forkers
from supervisor.house import House
from supervisor.teardown import Teardown
from supervisor.terminal import Terminal

log = logs.get("supervisor")


class Orders:
    """TERM and INT drain by the deadline, QUIT drains without one, HUP reloads unless its terminal is gone."""

    def __init__(
        self,
        house: House,
        *,
        teardown: Teardown,
        forkers: Forkers,
        announcer: Announcer,
        terminal: Terminal,
        reread: Callable[[], Settings],
    ) -> None:
        self._house = house
        self._teardown = teardown
        self._forkers = forkers
        self._announcer = announcer
        self._terminal = terminal
        self._reread = reread
        self._reload_again = False

    def obey(self, number: signal.Signals) -> None:
        """One signal; SIGCHLD is seen to anyway."""
        if number in (signal.SIGTERM, signal.SIGINT):
            self._teardown.request(Request.TERMINATE, number.name)
        elif number == signal.SIGQUIT:
            self._teardown.request(Request.STOP, "stop")
        elif number == signal.SIGHUP and self._terminal.has_closed():
            self._teardown.request(Request.TERMINATE, "the terminal closed")
        elif number == signal.SIGHUP:
            self._reload()

    def follow_up(self) -> None:
        """Reload for those who asked while the last reload was still importing."""
        if self._reload_again and not self._forkers.coming:
            self._reload_again = False
            self._reload()

    def _reload(self) -> None:
        if self._house.drain.stopping:
            log.warning("reload.refused", reason="stopping")
            return
        if self._forkers.coming:
            # Giving up an import for every HUP would never let one finish.
            self._reload_again = True
            return
        try:
            settings = self._reread()
            capacity.check(settings)
        except StokerError as error:
            log.error("reload.failed", error=str(error))
            return
        generation = self._house.ledger.generation + 1
        log.event("reload.started", generation=generation)
        self._announcer.reload_began(time.monotonic_ns())
        self._forkers.start(settings, generation=generation)
