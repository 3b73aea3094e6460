"""The jobs that are measured."""

from __future__ import annotations

import time
from typing import Any, Final

from bench.beacon import report
from bench.burning import burn
from stoker import Ctx, job

HELD_S: Final = 60.0
# A board tells 256 names apart.
FRESH: Final = 200


@job
def noop(payload: dict[str, Any]) -> None:
    """Nothing; a marked one says that its turn has come."""
    if "to" in payload:
        report(payload["to"], mark=payload["mark"])


@job
def compute(payload: dict[str, Any]) -> None:
    """One fixed piece of work."""
    burn(payload["turns"])


def started(payload: dict[str, Any]) -> None:
    """Say when it started."""
    report(payload["to"])


known = job(name="known")(started)
# The same handler under names that no worker has seen before.
fresh = [job(name=f"fresh_{number}")(started) for number in range(FRESH)]


@job
def hold(payload: dict[str, Any], ctx: Ctx) -> None:
    """Say where it started; the first time, stay until killed."""
    report(payload["to"], attempt=ctx.attempt)
    if ctx.attempt == 1:
        time.sleep(HELD_S)
