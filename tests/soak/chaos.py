"""What happens to the hosts while they work, and how soon they work again."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable

import psutil

from stoker.drivers.base import NewJob
from tests.soak.theatre import Host, Theatre

# Every host loses its database, a process or its head for as long as this at most.
_MOMENT_S = 3.0


class Chaos:
    """One fault after the other; after each, how long a job that is new then takes to its end."""

    def __init__(self, theatre: Theatre) -> None:
        self._theatre = theatre
        self.recoveries: dict[str, list[float]] = defaultdict(list)
        self.probes: list[int] = []
        roles = ("worker", "worker", "worker", "keeper", "fork server")
        self._faults: list[tuple[str, Callable[[Host], None]]] = [
            *((f"kill -9 {role}", lambda host, role=role: _signal(host, role, signal.SIGKILL)) for role in roles),
            ("stop and continue a worker", lambda host: _pause(host, "worker")),
            ("stop and continue the keeper", lambda host: _pause(host, "keeper")),
            ("kill -9 supervisor", lambda host: host.restart(signal.SIGKILL)),
            ("TERM supervisor", lambda host: host.restart(signal.SIGTERM)),
            ("reload", lambda host: host.supervisor.send(signal.SIGHUP)),
            ("end every session", lambda host: self._end_sessions()),
            ("blackhole", _blackhole),
            ("restart PostgreSQL", lambda host: theatre.restart_server()),
        ]

    def strike(self) -> None:
        """Let one thing happen to one host, and wait until a new job is through."""
        what, fault = random.choice(self._faults)
        fault(random.choice(self._theatre.hosts))
        began = time.monotonic()
        (probe,) = self._theatre.enqueue([NewJob(name="quick", queue="default", payload="{}", priority=10)])
        self.probes.append(probe)
        while not self._theatre.effects.times("end", [probe]):
            if time.monotonic() - began > 120:
                raise AssertionError(f"after {what} job {probe} did not end within 120 s")
            time.sleep(0.01)
        self.recoveries[what].append(time.monotonic() - began)
        for host in self._theatre.hosts:
            assert not host.ended(), f"the supervisor of host {host.name} ended by itself after {what}"

    def _end_sessions(self) -> None:
        self._theatre.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and application_name like 'stoker:%'"
        )


def _signal(host: Host, role: str, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, IndexError):
        random.choice(host.supervisor.processes(f"stoker: {role}")).send_signal(number)


def _pause(host: Host, role: str) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, IndexError):
        victim = random.choice(host.supervisor.processes(f"stoker: {role}"))
        victim.suspend()
        time.sleep(random.uniform(0.1, _MOMENT_S))
        victim.resume()


def _blackhole(host: Host) -> None:
    host.proxy.blackhole()
    time.sleep(random.uniform(0.1, _MOMENT_S))
    host.proxy.heal()
