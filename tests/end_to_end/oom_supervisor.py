"""The real supervisor, told where the kernel counts its kills: `python tests/end_to_end/oom_supervisor.py`."""

import os
import sys
from pathlib import Path

from stoker import logs, settings
from supervisor.loop import Supervisor

if __name__ == "__main__":
    known = settings.load()
    logs.configure(known.log_format, known.log_level, role="supervisor")
    sys.exit(Supervisor(known, memory_events=Path(os.environ["TEST_MEMORY_EVENTS"])).run())
