"""`python -m supervisor`, which `stoker run` execs."""

import os
import signal

# Until the loop hears signals there is nothing to drain: end at once. As PID 1 the kernel would swallow them.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
for number in ENDINGS:
    signal.signal(number, lambda *_: os._exit(0))
# `stoker run` has blocked them.
signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
# A hang-up means nothing yet, but that nohup wants it ignored must still be seen later.
if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

from supervisor.launching import launch_early  # noqa: E402

if __name__ == "__main__":
    early = launch_early()

    from stoker.outlet import flush_standard_streams
    from supervisor.cli import main

    code = main(early)
    # Everything is closed by now; taking the interpreter apart would only eat into the time a drain has.
    flush_standard_streams()
    os._exit(code)
