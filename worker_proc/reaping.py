"""Gives back what dead children held: at once when the supervisor reports a death, and late claims at every renewal."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from stoker import logs
from stoker.drivers.base import Settled, Settlement
from stoker.drivers.calls import Call
from stoker.drivers.postgres import PostgresDriver
from stoker.sql import statement
from worker_proc.blame import Blame, HeldRun
from worker_proc.link import Link
from worker_proc.messages import ChildDied, DeathFacts, Message, Reaped
from worker_proc.run_report import report_loss
from worker_proc.suspects import Suspects

PAGE: Final = 500
# A death may be reported a moment after the child's slot is empty.
STRAY_S: Final = 5.0
# How long the session of a dead worker may take to end before its claims are given back all the same.
BACKEND_S: Final = 1.0
# PostgreSQL cuts longer names.
_APPLICATION_NAME: Final = 63

log = logs.get("keeper")


class Reaping:
    """Settles deaths in one transaction each and answers `Reaped`. Safe to hear the same death again."""

    name = "claims of dead children"

    def __init__(
        self,
        link: Link,
        *,
        blame: Blame,
        suspects: Suspects,
        host_id: Callable[[], int],
        tell: Callable[[Message], None],
        freed: Callable[[str], None],
    ) -> None:
        self._link = link
        self._blame = blame
        self._suspects = suspects
        self._freed = freed
        self._host_id = host_id
        self._tell = tell
        self._deaths: deque[ChildDied] = deque()
        self.reaped: set[int] = set()

    @property
    def due_at(self) -> float:
        """At once while deaths wait."""
        return 0.0 if self._deaths else math.inf

    @property
    def waiting(self) -> set[int]:
        """Claim numbers whose death is known and not settled."""
        return {death.claim_no for death in tuple(self._deaths)}

    def hear(self, death: ChildDied) -> None:
        """Take note of a death; any thread."""
        self._deaths.append(death)

    def run(self) -> None:
        """Settle what waits, in the order it was heard; one that fails goes to the end of the line."""
        while self._deaths:
            death = self._deaths.popleft()
            try:
                self._settle(death)
            except BaseException:
                self._deaths.append(death)
                raise
            self.reaped.add(death.claim_no)
            self._tell(Reaped(death.claim_no))
            # Nothing in the database says that a row lock is gone.
            self._freed(death.facts.queue)

    def _settle(self, death: ChildDied) -> None:
        with self._link.limited() as db:
            if death.facts.backend_pid:
                _end_backend(db, death.facts)
            with db.conn.transaction():
                held = [run for page in _held(db, self._host_id(), [death.claim_no]) for run in page]
                if held:
                    settlements = self._blame.settle(death, held)
                    _report(death, held, settlements, db.settle(settlements))
                leased = {run.job_id for run in held}
                self._suspects.note(db, death, [lane for lane in death.lanes if lane.job_id not in leased])


class LateClaims:
    """Hands back claims that were committed after their client had died."""

    name = "late claims"

    def __init__(
        self,
        link: Link,
        *,
        reaping: Reaping,
        host_id: Callable[[], int],
        own_claim_no: int,
        living: Callable[[], Collection[int]],
        every: float,
    ) -> None:
        self._link = link
        self._reaping = reaping
        self._host_id = host_id
        self._living = living
        self._strays = Strays(before=own_claim_no)
        self._every = every
        self.due_at = 0.0

    def run(self) -> None:
        """Look which incarnations hold running rows of this host, and give back those of the dead."""
        now = time.monotonic()
        self.due_at = now + self._every
        with self._link.limited() as db:
            holders = holding(db, self._host_id())
            dead = holders & self._reaping.reaped
            dead |= self._strays.find(holders - self._reaping.waiting, self._living(), now)
            if dead and (jobs := hand_back(db, self._host_id(), dead)):
                log.warning("claims.late", claim_nos=sorted(dead), jobs=jobs)


class Strays:
    """Deaths an earlier keeper has settled: older than this keeper, holding rows, on no slot for a while. Pure.

    Younger children may live in slots this keeper was never told about, and their deaths are reported to it.
    """

    def __init__(self, *, before: int) -> None:
        self._before = before
        self._since: dict[int, float] = {}

    def find(self, holding: Collection[int], living: Collection[int], now: float) -> set[int]:
        """The claim numbers that are certainly dead."""
        lonely = {claim_no for claim_no in holding if claim_no < self._before and claim_no not in living}
        self._since = {claim_no: self._since.get(claim_no, now) for claim_no in lonely}
        return {claim_no for claim_no, since in self._since.items() if now - since >= STRAY_S}


def holding(db: PostgresDriver, host_id: int) -> set[int]:
    """The claim numbers under which rows of a host are running."""
    return db.run(Call(statement("list_holders"), {"host": host_id}, lambda rows: {row[0] for row in rows}))


def hand_back(db: PostgresDriver, host_id: int, claim_nos: Collection[int]) -> int:
    """Put everything these incarnations hold back in line, uncounted; returns how many jobs."""
    if not claim_nos:
        return 0
    jobs = 0
    for page in _held(db, host_id, claim_nos):
        unstarted = [Settlement(job_id=run.job_id, run_no=run.run_no, outcome="handed_back") for run in page]
        jobs += len(db.settle(unstarted))
    return jobs


def _end_backend(db: PostgresDriver, facts: DeathFacts) -> None:
    # Not pg_terminate_backend's own wait: that looks every 100 ms only.
    params = {"pid": facts.backend_pid, "name": facts.title[:_APPLICATION_NAME]}
    call = Call(statement("end_backend"), params, lambda rows: bool(rows))
    give_up_at = time.monotonic() + BACKEND_S
    while db.run(call) and time.monotonic() < give_up_at:
        time.sleep(0.002)


def _held(db: PostgresDriver, host_id: int, claim_nos: Iterable[int]) -> Iterator[list[HeldRun]]:
    after = 0
    while page := db.run(_read_held(host_id, sorted(claim_nos), after)):
        yield page
        after = page[-1].job_id


def _read_held(host_id: int, claim_nos: list[int], after: int) -> Call[list[HeldRun]]:
    params = {"host": host_id, "claim_nos": claim_nos, "after": after, "limit": PAGE}
    return Call(statement("read_held"), params, lambda rows: [HeldRun(*row) for row in rows])


def _report(death: ChildDied, held: list[HeldRun], settlements: list[Settlement], settled: list[Settled]) -> None:
    states = {one.job_id: one.state for one in settled}
    for run, one in zip(held, settlements, strict=True):
        if one.error is not None and one.job_id in states:
            report_loss(death, run, states[one.job_id])
    numbers = Counter(one.outcome for one in settlements)
    suspects, back = numbers["suspected"], numbers["handed_back"] + numbers["interrupted"]
    blamed = len(held) - suspects - back
    log.event("claims.reaped", claim_no=death.claim_no, how=death.how, blamed=blamed, suspects=suspects, back=back)
