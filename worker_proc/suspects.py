"""Deaths of processes that held their job by a row lock alone: noted at once, written into the row when it is free."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import json
from msgspec.structs import replace

from stoker.drivers import holding
from stoker.drivers.base import Holder
from stoker.drivers.calls import Call
from stoker.drivers.postgres import PostgresDriver
from stoker.sql import statement
from worker_proc.blame import Blame, HeldRun
from worker_proc.link import Link
from worker_proc.messages import ChildDied, Lane
from worker_proc.run_report import report_loss

PAGE: Final = 100
# A row is not free while somebody else runs the job: for a moment as a rule.
SOON_S: Final = 0.01
# What a host that is gone left behind.
LOOK_S: Final = 2.0


class Suspects:
    """From the note on nobody claims the job, until every death that is held against it is written into its row."""

    name = "suspects"

    def __init__(self, link: Link, *, blame: Blame, host_id: Callable[[], int]) -> None:
        self._link = link
        self._blame = blame
        self._host_id = host_id
        self._pause = SOON_S
        self.due_at = 0.0

    def note(self, db: PostgresDriver, death: ChildDied, lanes: Iterable[Lane]) -> None:
        """Note what a death may be held against, but for leased runs; in the caller's transaction, again is fine."""
        # A process with several lanes leases every job: a suspect that is not leased has ended before.
        held_against = [lane for lane in lanes if lane.verdict == "blamed"]
        if not held_against:
            return
        noted: list[int] = db.run(_note(death, held_against, self._host_id()))
        if noted:
            self.due_at, self._pause = 0.0, SOON_S

    def run(self) -> None:
        """Write the deaths whose rows are free."""
        with self._link.limited() as db:
            if not db.run(_HAS):
                self._pause = SOON_S
                self.due_at = time.monotonic() + LOOK_S
                return
            with db.conn.transaction():
                runs = {run.job_id: run for run in db.run(_LOCK)}
                for job_id, host_id, death in db.run(_take(runs)):
                    runs[job_id] = self._write(db, runs[job_id], death, host_id)
        self.due_at = time.monotonic() + self._pause
        # Somebody may have leased the job for hours.
        self._pause = min(2 * self._pause, LOOK_S)

    def _write(self, db: PostgresDriver, run: HeldRun, death: ChildDied, host_id: int) -> HeldRun:
        """Lease the job in the dead child's name and settle that; returns what the next death finds."""
        run = replace(run, run_no=run.run_no + 1, attempt=run.attempt + 1)
        db.run(holding.lease_locked([run.job_id], Holder(host_id, death.claim_no)))
        settlement = self._blame.judge(death, run, "blamed")
        for settled in db.settle([settlement]):
            report_loss(death, run, settled.state)
        return replace(run, crashes=run.crashes + settlement.crashed)


_HAS: Final[Call[bool]] = Call(statement("has_suspects"), {}, lambda rows: rows[0][0])
_LOCK: Final[Call[list[HeldRun]]] = Call(
    statement("lock_suspects"), {"limit": PAGE}, lambda rows: [HeldRun(*row) for row in rows]
)


def _take(job_ids: Iterable[int]) -> Call[list[tuple[int, int, ChildDied]]]:
    return Call(
        statement("take_suspects"),
        {"ids": list(job_ids)},
        lambda rows: [(row[0], row[1], json.decode(row[2], type=ChildDied)) for row in rows],
    )


def _note(death: ChildDied, lanes: list[Lane], host_id: int) -> Call[list[int]]:
    params = {
        "ids": [lane.job_id for lane in lanes],
        "run_nos": [lane.run_no for lane in lanes],
        "ended": [lane.ended for lane in lanes],
        "host": host_id,
        "claim_no": death.claim_no,
        "death": json.encode(death).decode(),
    }
    return Call(statement("note_suspects"), params, lambda rows: [row[0] for row in rows])
