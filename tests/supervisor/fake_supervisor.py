"""A real supervisor over fake children, as a process: `python tests/supervisor/fake_supervisor.py`."""

import sys
from functools import partial
from pathlib import Path

from stoker import logs, settings
from stoker.errors import StokerError
from supervisor.cli import take_overrides
from supervisor.loop import Supervisor

SERVER = (sys.executable, str(Path(__file__).with_name("fake_children.py")))

if __name__ == "__main__":
    read = partial(settings.load, take_overrides())
    logs.configure("json", "debug")
    try:
        sys.exit(Supervisor(read(), reread=read, server_command=SERVER).run())
    except StokerError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
