"""Plain forks of a process that has imported what a worker imports, each with a connection: `forks URL COUNT`."""

from __future__ import annotations

import gc
import os
import signal
import sys

import psycopg

import bench.app  # noqa: F401
import worker_proc.worker  # noqa: F401
from bench.floors.speech import say, wait_for_go
from worker_proc.linux import signal_on_parent_death


def fork_one(url: str) -> int:
    """Returns in the parent, when the child is connected."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal_on_parent_death(signal.SIGKILL)
        conn = psycopg.connect(url, autocommit=True)
        conn.execute("select 1")
        os.write(writable, b"1")
        signal.pause()
        os._exit(0)
    os.close(writable)
    os.read(readable, 1)
    os.close(readable)
    return pid


def main() -> None:
    """Fork, and keep the children until told to go."""
    gc.collect()
    gc.freeze()
    for _ in range(int(sys.argv[2])):
        fork_one(sys.argv[1])
    say("ready")
    wait_for_go()


if __name__ == "__main__":
    main()
