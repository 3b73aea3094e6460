"""`python -m supervisor`, which `stoker run` execs."""

import signal
import sys

# Until the loop hears signals there is nothing to drain: die of an interrupt at once, and not with a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from supervisor.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
