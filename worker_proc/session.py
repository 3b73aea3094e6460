"""The keeper's session connection: the schema brought up to date, LISTEN, and what it hears."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import Connection, Notify

from stoker import logs
from stoker.database import STEADY_PLANS
from stoker.drivers.calls import Keeping
from stoker.migrate import migrate
from worker_proc.control import Control
from worker_proc.link import Link, LinkDown

_PREPARE = (
    "listen stoker_ready; listen stoker_due; listen stoker_cancel;"
    " set statement_timeout = '2500ms'; set lock_timeout = '1s'"
)

log = logs.get("keeper")


class Session(Link):
    """Autocommit, always reading. `hear` is called with channel and payload of every notification."""

    def __init__(
        self,
        control: Control,
        *,
        url: str,
        name: str,
        keeping: Keeping,
        hear: Callable[[str, str], None],
    ) -> None:
        super().__init__(control, url=url, name=name, keeping=keeping, prepare=self._greet)
        self._deliver = hear

    def hear(self) -> None:
        """Take in what has arrived since, without waiting. Raises LinkDown."""
        pgconn = self.conn.pgconn
        try:
            pgconn.consume_input()
        except psycopg.OperationalError as error:
            raise LinkDown(str(error)) from error
        while note := pgconn.notifies():
            self._deliver(note.relname.decode(), note.extra.decode())

    def fileno(self) -> int:
        """For poll: readable when there is something to hear. Raises LinkDown."""
        return self.conn.pgconn.socket

    def _greet(self, conn: Connection) -> None:
        for name in migrate(conn):
            log.event("schema.migrated", name=name)
        # What arrives during a call is delivered on the way, the rest by hear().
        conn.add_notify_handler(self._notified)
        conn.execute(_PREPARE)
        conn.execute(STEADY_PLANS)

    def _notified(self, note: Notify) -> None:
        self._deliver(note.channel, note.payload)
