"""`python -m supervisor`, which `stoker run` execs."""

import os
import signal

# Until the loop hears signals there is nothing to drain: end at once. As PID 1 the kernel would swallow them.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
    signal.signal(number, lambda *_: os._exit(0))
signal.signal(signal.SIGHUP, signal.SIG_IGN)

from stoker.outlet import flush_standard_streams  # noqa: E402
from supervisor.cli import main  # noqa: E402

if __name__ == "__main__":
    code = main()
    # Everything is closed by now; taking the interpreter apart would only eat into the time a drain has.
    flush_standard_streams()
    os._exit(code)
