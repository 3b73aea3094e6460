"""Deaths the keeper has yet to settle: kept until it says `Reaped`, told again to every new keeper. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from supervisor.records import Child, Exit
from worker_proc.board import RunKey
from worker_proc.messages import ChildDied, DeathFacts, How, Lane, Verdict


class Notices:
    """Open `ChildDied` notices by claim number."""

    def __init__(self) -> None:
        self._open: dict[int, ChildDied] = {}
        self._told: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, notice: ChildDied) -> None:
        """Keep a notice until it is settled."""
        self._open[notice.claim_no] = notice

    def settled(self, claim_no: int) -> bool:
        """The keeper is done with it. False if that was known already."""
        self._told.pop(claim_no, None)
        return self._open.pop(claim_no, None) is not None

    def untold(self, keeper: int) -> list[ChildDied]:
        """The notices this keeper (its claim number) was not yet told; they count as told from now on."""
        found = [notice for notice in self._open.values() if self._told.get(notice.claim_no) != keeper]
        self._told.update((notice.claim_no, keeper) for notice in found)
        return found


def compose(
    child: Child,
    end: Exit,
    *,
    how: How,
    runs: Iterable[RunKey],
    executing: Collection[RunKey],
    host: str,
    backend_pid: int,
    stack: str,
) -> ChildDied:
    """Word a worker's death: which runs (job id, run_no) it may have died of, and whose fault it is held to be."""
    named = list(runs)
    aimed_at = child.kill.runs if child.kill else frozenset()
    lanes = [_lane(run, child, executing, _verdict(run, named, aimed_at, how)) for run in named]
    facts = DeathFacts(
        pid=end.pid,
        exit_code=end.code,
        signal=end.signal,
        host=host,
        queue=child.seat.queue,
        backend_pid=backend_pid,
        title=child.title,
        rss_limit_bytes=(child.kill_rss or 0) if how == "memory" else 0,
        oom=end.oom,
        stack=stack,
    )
    return ChildDied(child.claim_no, how, lanes, facts)


def _lane(run: RunKey, child: Child, executing: Collection[RunKey], verdict: Verdict) -> Lane:
    given_ms = next((seen.given_ms for seen in child.look.runs if seen.key == run), 0)
    peak = child.look.peaks.get(run, 0)
    return Lane(*run, verdict, ended=run not in executing, peak_rss_bytes=peak, timeout_s=given_ms / 1000)


def _verdict(run: RunKey, named: list[RunKey], aimed_at: frozenset[RunKey], how: How) -> Verdict:
    if how == "drain":
        return "innocent"
    if aimed_at:
        # Also when the run it was about has ended just before.
        return "blamed" if run in aimed_at else "innocent"
    return "blamed" if len(named) == 1 else "suspect"
