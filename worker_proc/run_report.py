"""What the log says of a run that did not simply complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stoker import logs
from stoker.drivers.base import Claimed, Settlement
from stoker.run_signal import Reason
from worker_proc.messages import ChildDied

if TYPE_CHECKING:
    from worker_proc.blame import HeldRun

_worker: Final = logs.get("worker")
_keeper: Final = logs.get("keeper")


def report(claimed: Claimed, settlement: Settlement | None, reasons: tuple[Reason, ...], elapsed: float) -> None:
    """Log how a run ended; `settlement` is None when it was not ours any more."""
    facts: dict[str, Any] = {"job_id": claimed.id, "job": claimed.name, "attempt": claimed.attempt}
    if settlement is None:
        _worker.warning("run.lease_lost", **facts)
    elif settlement.outcome == "postponed":
        _worker.warning("job.name_unknown", **facts, delay_s=settlement.delay)
    elif settlement.outcome in ("interrupted", "cancelled"):
        _worker.event(f"job.{settlement.outcome}", **facts, reasons=",".join(reasons), took_s=round(elapsed, 3))
    else:
        error = settlement.error or {}
        _worker.warning(
            "job.retried" if settlement.outcome == "retried" else "job.dead",
            **facts,
            error=f"{error.get('type')}: {error.get('message')}",
            delay_s=round(settlement.delay, 3),
            took_s=round(elapsed, 3),
        )


def report_loss(death: ChildDied, run: HeldRun, state: str) -> None:
    """Log that a run ended with its process."""
    pid = death.facts.pid
    _keeper.warning("job.lost_its_process", job_id=run.job_id, job=run.name, state=state, how=death.how, pid=pid)
