"""Watches the other hosts and ends the lease of those that are dead."""

from __future__ import annotations

import time
from typing import Final

from stoker import logs
from stoker.drivers.calls import Call
from stoker.drivers.postgres import PostgresDriver
from stoker.settings import Settings
from stoker.sql import statement
from worker_proc.host_lease import HostLease, Identity, Windows
from worker_proc.judgement import Observer, SeenHost
from worker_proc.link import Link
from worker_proc.linux import boottime_ns
from worker_proc.lock_proof import freed_lock, remove_lock
from worker_proc.sweeping import Sweeping

EVERY_S: Final = 1.0

log = logs.get("keeper")


class Observing:
    """A look each second. Judging takes the seen renewal back as its condition: a host that moves meanwhile lives."""

    name = "other hosts"

    def __init__(
        self, link: Link, *, lease: HostLease, identity: Identity, sweeping: Sweeping, settings: Settings
    ) -> None:
        self._link = link
        self._lease = lease
        self._identity = identity
        self._sweeping = sweeping
        self._observer = Observer(Windows.of(settings))
        self.due_at = 0.0

    def run(self) -> None:
        """Look once."""
        self.due_at = time.monotonic() + EVERY_S
        if not self._lease.held:
            return
        self._observer.renewed(self._lease.renewed_at)
        with self._link.limited() as db:
            asked_at = boottime_ns()
            hosts = db.run(_read_hosts(self._lease.host_id))
            dead = self._observer.judge(hosts, asked_at=asked_at, answered_at=boottime_ns())
            for host in dead:
                self._judge(db, host, proof="renewals")
            for host in hosts:
                if host not in dead and host.machine == self._identity.machine:
                    self._try_lock(db, host)

    def _try_lock(self, db: PostgresDriver, host: SeenHost) -> None:
        with freed_lock(host.lock_path, host.lock_inode) as free:
            # A last renewal may have come between the look and the lock; then the file is needed once more.
            if free and self._judge(db, host, proof="file lock"):
                remove_lock(host.lock_path)

    def _judge(self, db: PostgresDriver, host: SeenHost, *, proof: str) -> bool:
        ended = db.run(_end_host(host))
        if ended:
            log.warning("host.dead", host=host.id, hostname=host.hostname, proof=proof, locked=host.locked)
            self._sweeping.due_at = 0.0
        return ended


def _read_hosts(own: int) -> Call[list[SeenHost]]:
    return Call(statement("read_hosts"), {"own": own}, lambda rows: [SeenHost(*row) for row in rows])


def _end_host(host: SeenHost) -> Call[bool]:
    return Call(statement("end_host"), {"id": host.id, "renewals": host.renewals}, lambda rows: bool(rows))
