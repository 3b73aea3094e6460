"""The CPU figure's work without a queue: `loops FIFO TURNS`, one piece of work per byte, then the time of the end."""

from __future__ import annotations

import os
import sys
import time

from bench.burning import burn
from bench.floors.speech import say, wait_for_go


def main() -> None:
    """Take pieces of work until the pipe is empty and closed."""
    turns = int(sys.argv[2])
    tokens = os.open(sys.argv[1], os.O_RDONLY)
    say("ready")
    wait_for_go()
    while os.read(tokens, 1):
        burn(turns)
    say(time.monotonic_ns())


if __name__ == "__main__":
    main()
