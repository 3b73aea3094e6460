"""Loads a table before the fork, or fails to, and tells who has it; files in the working directory choose."""

import os
import threading
import time
from pathlib import Path
from typing import Any

from stoker import Ctx, job, preload
from tests.preloading import BROKEN, LOADED_BY, SIZE, THREADED
from tests.sabotage import effect, released

table: dict[str, Any] = {}


@preload
def load_table() -> None:
    if BROKEN.exists():
        raise OSError("no table today")
    if THREADED.exists():
        threading.Thread(target=time.sleep, args=(3600,), name="pump", daemon=True).start()
    table.update(loaded_by=os.getpid(), rows=os.urandom(1 << 20) * (SIZE >> 20))
    with LOADED_BY.open("a") as file:
        file.write(f"{os.getpid()}\n")


@job
def looks(payload: dict, ctx: Ctx) -> dict:
    """Read the whole table, and wait until every worker has."""
    seen = table["rows"].count(b"\0")
    effect(ctx, "start")
    while not released(ctx):
        time.sleep(0.02)
    facts = {"pid": os.getpid(), "loaded_by": table["loaded_by"], "zeros": seen}
    return {**facts, "private": private_bytes(id(table["rows"]))}


def private_bytes(address: int) -> int:
    """How much of the mapping around an address is this process's alone."""
    private, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *words = line.split()
        if not first.endswith(":"):
            start, _, end = first.partition("-")
            inside = int(start, 16) <= address < int(end, 16)
        elif inside and first.startswith("Private_"):
            private += int(words[0]) * 1024
    return private
