"""Pure: what one round trip of a worker's desk sends, given what ended and what its open transaction has locked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct

from stoker.drivers import enqueueing, holding
from stoker.drivers.base import Holder, Settlement
from stoker.drivers.calls import Call, Keeping

BEGIN: Final[Call[None]] = Call("begin", {}, lambda _: None)
COMMIT: Final[Call[None]] = Call("commit", {}, lambda _: None)
ROLLBACK: Final[Call[None]] = Call("rollback", {}, lambda _: None)


class Claim(Struct, frozen=True):
    """What to claim next: by row locks, or as leases; or one of the suspects, which ordinary claims leave out."""

    limit: int
    after: holding.Place
    by_lock: bool
    suspect: bool = False


def compose(
    ended: Sequence[Settlement],
    claim: Claim | None,
    *,
    queue: str,
    locked: AbstractSet[int],
    keep: Collection[int],
    holder: Holder,
    keeping: Keeping,
) -> list[Call[Any]]:
    """Write endings, then claim. The claim's call is the last.

    Rows in `locked` are held by a transaction that is open: it ends here. Those in `keep` go on as leases, the others
    whose runs did not end are free again. Everything is one transaction, but for a claim that follows an open one's
    end or opens one.
    """
    calls = _settle(ended, locked=locked, keep=keep, holder=holder, keeping=keeping)
    # A BEGIN inside the implicit transaction of a pipeline would leave what came before uncommitted.
    explicit = bool(locked) or (bool(calls) and claim is not None and claim.by_lock)
    if explicit:
        calls = [*calls, COMMIT] if locked else [BEGIN, *calls, COMMIT]
    if claim is None:
        if keeping.notify and locked - {one.job_id for one in ended} - set(keep):
            # Nobody else is told that a row lock is gone, and this worker does not come back for the row at once.
            calls.append(enqueueing.notify_ready([queue]))
        return calls
    if claim.by_lock:
        return [*calls, BEGIN, holding.lock(queue, claim.limit, after=claim.after)]
    if claim.suspect:
        return [*calls, holding.claim_suspect(queue, holder)]
    return [*calls, holding.claim(queue, claim.limit, holder, after=claim.after)]


def _settle(
    ended: Sequence[Settlement],
    *,
    locked: AbstractSet[int],
    keep: Collection[int],
    holder: Holder,
    keeping: Keeping,
) -> list[Call[Any]]:
    if not locked:
        return [*holding.settle(ended, keeping)]
    returned = [one for one in ended if one.outcome == "completed" and one.job_id in locked]
    others = [one for one in ended if one.outcome != "completed" or one.job_id not in locked]
    # What did not simply return is leased first, so that every such ending is written in one way only.
    lease = locked & ({one.job_id for one in others} | set(keep) - {one.job_id for one in returned})
    calls: list[Call[Any]] = []
    if lease:
        calls.append(holding.lease_locked(sorted(lease), holder))
    if returned:
        calls.append(holding.finish_locked(returned, keeping))
    return [*calls, *holding.settle(others, keeping)]
