"""A bare process with the application, one connection and a SIGTERM handler: `boot URL [worker]`.

With `worker` it has also imported what a worker imports.
"""

from __future__ import annotations

import importlib
import signal
import sys

import psycopg

import bench.app  # noqa: F401
from bench.floors.speech import say


def main() -> None:
    """Connect, then wait for the signal."""
    if sys.argv[2:] == ["worker"]:
        importlib.import_module("worker_proc.worker")
    with psycopg.connect(sys.argv[1], autocommit=True) as conn:
        conn.execute("select 1")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        say("ready")
        signal.pause()


if __name__ == "__main__":
    main()
