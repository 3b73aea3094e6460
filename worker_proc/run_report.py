"""What the log says of a run that did not simply complete."""

from __future__ import annotations

from typing import Any

from stoker import logs
from stoker.drivers.base import Claimed, Settlement
from stoker.run_signal import Reason

log = logs.get("worker")


def report(claimed: Claimed, settlement: Settlement | None, reasons: tuple[Reason, ...], elapsed: float) -> None:
    """Log how a run ended; `settlement` is None when it was not ours any more."""
    facts: dict[str, Any] = {"job_id": claimed.id, "job": claimed.name, "attempt": claimed.attempt}
    if settlement is None:
        log.warning("run.lease_lost", **facts)
    elif settlement.outcome == "postponed":
        log.warning("job.name_unknown", **facts, delay_s=settlement.delay)
    elif settlement.outcome in ("interrupted", "cancelled"):
        log.event(f"job.{settlement.outcome}", **facts, reasons=",".join(reasons), took_s=round(elapsed, 3))
    else:
        error = settlement.error or {}
        log.warning(
            "job.retried" if settlement.outcome == "retried" else "job.dead",
            **facts,
            error=f"{error.get('type')}: {error.get('message')}",
            delay_s=round(settlement.delay, 3),
            took_s=round(elapsed, 3),
        )
