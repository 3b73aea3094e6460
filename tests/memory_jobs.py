"""Jobs that use memory, and jobs that die as if it had run out."""

import os
import time
from pathlib import Path

from stoker import Ctx, Retry, job
from tests.sabotage import effect, held

__all__ = ["held"]

BLOCK = 8 << 20
ENOUGH = 1 << 30


@job(retry=Retry(attempts=10, base=0.05, jitter=False))
def eats(payload: dict, ctx: Ctx) -> None:
    """Takes more and more memory until somebody ends it, or a gigabyte is reached; then it waits."""
    effect(ctx, "start")
    eaten = []
    while len(eaten) * BLOCK < ENOUGH:
        eaten.append(b"x" * BLOCK)
        time.sleep(0.02)
    time.sleep(3600)


@job(retry=Retry(attempts=1))
def fails_late(payload: dict, ctx: Ctx) -> None:
    """Holds some memory for as long as the test wants, and fails."""
    ballast = b"x" * payload["bytes"]
    effect(ctx, "start")
    while not Path(payload["until"]).exists():
        time.sleep(0.02)
    raise ValueError(f"after {len(ballast)} bytes")


@job(retry=Retry(attempts=10, base=0.05, jitter=False))
def is_killed(payload: dict, ctx: Ctx) -> None:
    """Dies by SIGKILL; as the kernel would, it counts the kill first if it was one of the kernel's."""
    effect(ctx, "start")
    if payload["by_kernel"]:
        events = Path(os.environ["TEST_MEMORY_EVENTS"])
        kills = int(events.read_text().split()[-1])
        events.write_text(f"oom 0\noom_kill {kills + 1}\n")
    os.kill(os.getpid(), 9)
