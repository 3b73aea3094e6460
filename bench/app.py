"""The jobs that are measured."""

from __future__ import annotations

import time
from typing import Any

from bench.beacon import report
from bench.burning import burn
from stoker import Ctx, job

HELD_S = 60.0


@job
def noop(payload: dict[str, Any]) -> None:
    """Nothing."""


@job
def compute(payload: dict[str, Any]) -> None:
    """One fixed piece of work."""
    burn(payload["turns"])


@job
def started(payload: dict[str, Any]) -> None:
    """Say when it started."""
    report(payload["to"])


@job
def hold(payload: dict[str, Any], ctx: Ctx) -> None:
    """Say where it started; the first time, stay until killed."""
    report(payload["to"], attempt=ctx.attempt)
    if ctx.attempt == 1:
        time.sleep(HELD_S)
