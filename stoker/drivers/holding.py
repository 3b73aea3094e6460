"""How a worker holds jobs and lets go of them: what is sent to PostgreSQL, and how the answer is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from stoker.drivers.base import Claimed, Holder, Settled, Settlement
from stoker.drivers.calls import Call, Keeping, Rows
from stoker.sql import statement

# (priority, pos): a claim looks behind this place only.
Place = tuple[int, int]
# Before every row: the priority is a smallint, places begin at 1.
BEGINNING: Final[Place] = (-32768, 0)

KEEP_ATTEMPTS: Final = 50


def claim(queue: str, limit: int, holder: Holder, *, after: Place = BEGINNING) -> Call[list[Claimed]]:
    """Mark ready jobs running, in order of priority and place."""
    params = _claim(queue, limit, after) | {"host": holder.host, "claim_no": holder.claim_no}

    def read(rows: Rows) -> list[Claimed]:
        # An UPDATE returns its rows in any order.
        return sorted(_read_claimed(queue, rows), key=_place)

    return Call(statement("claim_batch"), params, read)


def claim_suspect(queue: str, holder: Holder) -> Call[list[Claimed]]:
    """Mark one job running that may have killed a process; claim() and lock() leave these out."""
    params = {"queue": queue, "host": holder.host, "claim_no": holder.claim_no}
    return Call(statement("claim_suspect"), params, lambda rows: _read_claimed(queue, rows))


def lock(queue: str, limit: int, *, after: Place) -> Call[list[Claimed]]:
    """Lock ready jobs until the transaction ends and write nothing; the runs are numbered as claim() would."""
    return Call(statement("lock_batch"), _claim(queue, limit, after), lambda rows: _read_claimed(queue, rows))


def _claim(queue: str, limit: int, after: Place) -> dict[str, Any]:
    return {"queue": queue, "limit": limit, "mark_priority": after[0], "mark_pos": after[1]}


def _read_claimed(queue: str, rows: Rows) -> list[Claimed]:
    return [Claimed(row[0], row[1], queue, *row[2:]) for row in rows]


def _place(claimed: Claimed) -> Place:
    return claimed.priority, claimed.pos


def lease_locked(job_ids: Collection[int], holder: Holder) -> Call[None]:
    """Make rows running that this transaction has locked."""
    params = {"ids": _ids(job_ids), "host": holder.host, "claim_no": holder.claim_no}
    return Call(statement("lease_locked"), params, _nothing)


def lease_again(run_nos: Mapping[int, int], holder: Holder) -> Call[set[int]]:
    """Take back rows (job id: run_no) whose lock was lost, those that nobody touched since; returns their ids."""
    params = {
        "ids": _ids(run_nos.keys()),
        "run_nos": _ids(run_nos.values()),
        "host": holder.host,
        "claim_no": holder.claim_no,
    }
    return Call(statement("lease_again"), params, lambda rows: {row[0] for row in rows})


def release_unheld(held: Sequence[int], holder: Holder) -> Call[list[int]]:
    """Put back what this holder has claimed but for the jobs in `held`; returns the ids."""
    params = {"host": holder.host, "claim_no": holder.claim_no, "held": held}
    return Call(statement("release_unheld"), params, lambda rows: [row[0] for row in rows])


def finish_locked(settlements: Sequence[Settlement], keeping: Keeping) -> Call[None]:
    """Record runs that returned while this transaction held their rows."""
    ids = _ids([s.job_id for s in settlements])
    if not keeping.done:
        return Call(statement("drop_locked"), {"ids": ids}, _nothing)
    return Call(statement("finish_locked"), {"ids": ids, "results": _results(settlements)}, _nothing)


def _ids(ids: Iterable[int]) -> str:
    # An array as text: psycopg dumps a list item by item, which costs more than all the rest of a short job.
    return f"{{{','.join(map(str, ids))}}}"


def _results(settlements: Sequence[Settlement]) -> list[str | None] | None:
    results = [s.result for s in settlements]
    return None if results.count(None) == len(results) else results


def _nothing(rows: Rows) -> None:
    """The statement returns no rows."""


def settle_done(settlements: Sequence[Settlement], keeping: Keeping) -> Call[list[Settled]]:
    """Record runs that returned."""
    params = {
        "ids": _ids([s.job_id for s in settlements]),
        "run_nos": _ids([s.run_no for s in settlements]),
        "results": _results(settlements),
        "keep": keeping.done,
    }
    return Call(statement("settle_done"), params, _read_settled)


def settle_batch(settlements: Sequence[Settlement], keeping: Keeping) -> Call[list[Settled]]:
    """Record every other ending."""
    params = {
        "ids": [s.job_id for s in settlements],
        "run_nos": [s.run_no for s in settlements],
        "outcomes": [s.outcome for s in settlements],
        # psycopg refuses a list of whole numbers and others.
        "delays": [float(s.delay) for s in settlements],
        "errors": [None if s.error is None else orjson.dumps(s.error).decode() for s in settlements],
        "crashed": [s.crashed for s in settlements],
        "started_ago": [float(s.started_ago) for s in settlements],
        "keep_dead": keeping.dead,
        "keep_cancelled": keeping.cancelled,
        "keep_attempts": KEEP_ATTEMPTS,
        "notify": keeping.notify,
    }
    return Call(statement("settle_batch"), params, _read_settled)


def settle(settlements: Sequence[Settlement], keeping: Keeping) -> list[Call[list[Settled]]]:
    """The one or two calls that record these endings."""
    done = [s for s in settlements if s.outcome == "completed"]
    others = [s for s in settlements if s.outcome != "completed"]
    calls = []
    if done:
        calls.append(settle_done(done, keeping))
    if others:
        calls.append(settle_batch(others, keeping))
    return calls


def _read_settled(rows: Rows) -> list[Settled]:
    return [Settled(*row) for row in rows]
