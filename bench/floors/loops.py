"""The CPU figure's work without a queue: `loops FIFO`, one piece of work per byte in it, then the time of the end."""

from __future__ import annotations

import os
import sys
import time

from bench.burning import burn
from bench.floors.speech import say, wait_for_go


def main() -> None:
    """Take pieces of work until the pipe is empty and closed."""
    tokens = os.open(sys.argv[1], os.O_RDONLY)
    say("ready")
    wait_for_go()
    while os.read(tokens, 1):
        burn()
    say(time.monotonic_ns())


if __name__ == "__main__":
    main()
