"""Finds who holds an old snapshot: until it lets go, no dead row of the queue can be cleaned away."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from stoker import logs
from stoker.drivers.calls import Call, Rows
from stoker.sql import statement
from worker_proc.link import Link

EVERY_S: Final = 15.0
# How long is old, and how long when many dead rows of the queue wait for it.
OLD_S: Final = 60.0
HASTY_S: Final = 15.0
MANY_DEAD: Final = 100_000

_FIXES: Final = {
    "session": "select pg_terminate_backend({name}) ends it; idle_in_transaction_session_timeout ends forgotten ones",
    "replication": "a standby with hot_standby_feedback runs a long query: end it there",
    "prepared": "finish it: commit prepared '{name}' or rollback prepared '{name}'",
    "slot": "its standby runs a long query or is gone: end that, or select pg_drop_replication_slot('{name}')",
}
_UNSEEN: Final = "; since when exactly is hidden from Stoker's role until it is granted pg_read_all_stats"

log = logs.get("keeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What keeps the oldest snapshot at one moment. `open_s` is how old its transaction is, None where nobody says."""

    kind: str
    name: str
    xids: frozenset[str]
    application: str | None = None
    role: str | None = None
    state: str | None = None
    open_s: float | None = None

    def continues(self, other: Pin | None) -> bool:
        """Whether this is the same holder as before, holding what it held."""
        return other is not None and (self.kind, self.name) == (other.kind, other.name) and bool(self.xids & other.xids)


class Watch:
    """What becomes of the oldest snapshot from look to look (pure)."""

    def __init__(self) -> None:
        self.held_s = 0.0
        self._pin: Pin | None = None
        self._since = 0.0
        self._old = False

    def see(self, pin: Pin | None, *, dead: int, now: float) -> tuple[Pin | None, Pin | None]:
        """The holder that has become old by this look, and the old one that is gone.

        Only what two looks find counts as held: a busy database has a new oldest snapshot at every look.
        """
        before, gone = self._pin, None
        self._pin = pin
        if pin is None or not pin.continues(before):
            gone = before if self._old else None
            self._since, self._old, self.held_s = now, False, 0.0
            return None, gone
        self.held_s = max(now - self._since, pin.open_s or 0.0)
        if self._old or self.held_s < (HASTY_S if dead >= MANY_DEAD else OLD_S):
            return None, None
        self._old = True
        return pin, None


class Seen(NamedTuple):
    """One look."""

    pin: Pin | None
    dead: int
    tells: bool


class Horizon:
    """Every keeper looks and publishes. The one with the lowest host id says once when a snapshot is old and when it is
    gone, and never what the session executes.
    """

    name = "old snapshots"

    def __init__(self, link: Link, *, host_id: Callable[[], int], publish: Callable[[float], None]) -> None:
        self._link = link
        self._host_id = host_id
        self._publish = publish
        self._watch = Watch()
        self.due_at = 0.0

    def run(self) -> None:
        """Look once."""
        now = time.monotonic()
        self.due_at = now + EVERY_S
        with self._link.limited() as db:
            seen = db.run(_find(self._host_id()))
        old, gone = self._watch.see(seen.pin, dead=seen.dead, now=now)
        if seen.tells and gone:
            log.event("horizon.released", what=f"{gone.kind} {gone.name}", role=gone.role, application=gone.application)
        if seen.tells and old:
            _warn(old, self._watch.held_s, seen.dead)
        self._publish(self._watch.held_s)


def _warn(pin: Pin, held_s: float, dead: int) -> None:
    since = datetime.now(UTC) - timedelta(seconds=held_s)
    hidden = pin.kind == "session" and pin.open_s is None
    log.warning(
        "horizon.pinned",
        what=f"{pin.kind} {pin.name}",
        role=pin.role,
        application=pin.application,
        state=pin.state,
        since=since.isoformat(timespec="seconds"),
        held_s=round(held_s),
        dead_rows=dead,
        fix=_FIXES[pin.kind].format(name=pin.name.replace("'", "''")) + (_UNSEEN if hidden else ""),
    )


def _find(host_id: int) -> Call[Seen]:
    return Call(statement("find_pin"), {"host": host_id}, _read)


def _read(rows: Rows) -> Seen:
    kind, name, xids, application, role, state, open_s, dead, tells = rows[0]
    if kind is None:
        return Seen(None, dead, tells)
    held = frozenset(xids)
    pin = Pin(kind=kind, name=name, xids=held, application=application, role=role, state=state, open_s=open_s)
    return Seen(pin, dead, tells)
