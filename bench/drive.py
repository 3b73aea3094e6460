"""One round of throughput: a backlog that waits, then the product or as many bare processes until it is done."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final, Literal, LiteralString

from bench.beacon import Beacon
from bench.errors import BenchFailed
from bench.marks import Progress, every, follow, from_logs
from bench.rig import Rig, until
from stoker.settings import Settings

Held = Literal["lock", "update"]

_LEFT: Final = "select exists (select from stoker.jobs where id > %s and id <= %s)"
LEFT_WITHIN_S: Final = 60.0
_WHATS: Final = {"lock": "lock-then-delete", "update": "update-then-delete"}


@dataclass(frozen=True, kw_only=True)
class Load:
    """What both sides do alike: so many no-op jobs, by so many processes, in batches of at most so many.

    `held` is how the floor holds them; "update" means that the product is told to take leases only.
    """

    jobs: int
    workers: int = 2
    batch: int = Settings().batch
    kept: bool = False
    held: Held = "lock"

    @property
    def floor_is(self) -> str:
        """The floor in words."""
        clients = f"{self.workers} client{'s' if self.workers > 1 else ''}"
        return f"raw {_WHATS[self.held]}{'-and-archive' if self.kept else ''}, {clients}"

    @property
    def settings(self) -> dict[str, object]:
        """The product's, where they are not the default."""
        settings: dict[str, object] = {"batch": self.batch}
        if not self.kept:
            settings["retention_done"] = 0
        if self.held == "update":
            settings["row_locks"] = "off"
        return settings

    @property
    def details(self) -> dict[str, Any]:
        """For the file."""
        return {"jobs": self.jobs, "workers": self.workers, "batch": self.batch}


def product(rig: Rig, load: Load) -> Progress:
    """The supervisor, on a backlog that was there before it."""
    rig.db.wipe()
    with closing(Beacon()) as beacon:
        rig.db.fill("stoker", load.jobs, to=beacon.name, every=every(load.jobs))
        rig.db.tidy()
        progress = run(rig, load, beacon)
    check_settled(rig, load)
    return progress


def run(rig: Rig, load: Load, beacon: Beacon, *, after: int = 0) -> Progress:
    """The supervisor, until the marked jobs and those between them are done, whose ids begin after `after`."""
    with rig.supervisor(f"default={load.workers}", **load.settings) as supervisor:
        supervisor.ready()
        progress = follow(beacon, load.jobs)
        # Another worker may still have some of the jobs before the last mark; a drain would hand them back.
        until(lambda: not rig.db.one(_LEFT, after, after + load.jobs), within=LEFT_WITHIN_S, every=0.05)
        return progress


def check_settled(rig: Rig, load: Load) -> None:
    """Raises BenchFailed unless every job is gone, and kept where it should be."""
    _check(rig, "stoker", load)


def floor(rig: Rig, load: Load) -> Progress:
    """Bare processes that claim and settle."""
    rig.db.wipe()
    rig.db.fill("bench", load.jobs, to="nobody", every=every(load.jobs))
    rig.db.tidy()
    progress = run_floor(rig, load)
    _check(rig, "bench", load)
    return progress


def run_floor(rig: Rig, load: Load) -> Progress:
    """Bare processes, until nothing is left."""
    with ExitStack() as stack:
        args = (rig.db.url, load.held, "kept" if load.kept else "gone", load.batch)
        bare = [stack.enter_context(rig.bare("claims", *args)) for _ in range(load.workers)]
        for process in bare:
            process.ready()
        for process in bare:
            process.go()
        return from_logs([process.hear() for process in bare], load.jobs)


def _check(rig: Rig, schema: LiteralString, load: Load) -> None:
    left = rig.db.one(f"select count(*) from {schema}.jobs")
    kept = rig.db.one(f"select count(*) from {schema}.finished where state = 'done'")
    if left or kept != (load.jobs if load.kept else 0):
        raise BenchFailed(f"of {load.jobs} jobs {left} are left and {kept} are kept as done")
