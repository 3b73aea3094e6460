"""One of many writers: `writer URL COUNT raw|notify|silent`; says when it began and when it ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import psycopg

import stoker
from bench.app import noop
from bench.floors.inserts import insert
from bench.floors.speech import say, wait_for_go
from stoker.settings import Settings

WARM_UP = 3


def writing(url: str, how: str) -> Callable[[], object]:
    """What is done again and again, with a commit each."""
    if how == "raw":
        conn = psycopg.connect(url, autocommit=True)
        return lambda: insert(conn)
    stoker.configure(settings=Settings(database_url=url, notify=how == "notify"))
    return lambda: noop.enqueue({"id": 7})


def main() -> None:
    """Connect, wait, write."""
    write = writing(sys.argv[1], sys.argv[3])
    for _ in range(WARM_UP):
        write()
    say("ready")
    wait_for_go()
    began = time.monotonic_ns()
    for _ in range(int(sys.argv[2])):
        write()
    say((began, time.monotonic_ns()))


if __name__ == "__main__":
    main()
