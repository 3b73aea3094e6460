"""`python -m supervisor`, which `stoker run` execs."""

import os
import signal
import sys

# Until the loop hears signals there is nothing to drain: end at once. As PID 1 the kernel would swallow them.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
    signal.signal(number, lambda *_: os._exit(0))
signal.signal(signal.SIGHUP, signal.SIG_IGN)

from supervisor.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
