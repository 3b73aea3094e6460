"""`python -m supervisor`: settings first, then the loop; every refusal is one readable message and an exit code."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

import msgspec
from setproctitle import setproctitle

from stoker import logs, settings
from stoker.errors import PlatformUnsupported, StokerError
from stoker.outlet import fill_standard_descriptors
from supervisor.launching import EMBEDDED_LOCK, OVERRIDES, Launched
from supervisor.loop import Supervisor


def main(early: Launched | None = None) -> int:
    """Supervise, and return the exit code. `early` is a fork server that was started ahead."""
    fill_standard_descriptors()
    embedded_lock = take_embedded_lock()
    try:
        return run(take_overrides(), early)
    except StokerError as error:
        if early:
            early.end()
        # Settings may be what is wrong, so this cannot depend on them.
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    finally:
        # The keeper was the last to need the server.
        if embedded_lock is not None:
            os.close(embedded_lock)


def run(overrides: dict[str, Any], early: Launched | None = None) -> int:
    """Read the settings and supervise; a reload reads them again with the same flags."""
    if sys.platform != "linux":
        raise PlatformUnsupported(command="stoker run", platform=sys.platform)
    read = partial(settings.load, overrides)
    current = read()
    setproctitle("stoker: supervisor")
    logs.configure(current.log_format, current.log_level, role="supervisor")
    return Supervisor(current, reread=read, early=early).run()


def take_overrides() -> dict[str, Any]:
    """The flags of `stoker run`, which execs this; nobody we start inherits them."""
    flags: dict[str, Any] = msgspec.json.decode(os.environ.pop(OVERRIDES, "{}"))
    return flags


def take_embedded_lock() -> int | None:
    """The descriptor that keeps the embedded server running; nobody we start inherits it."""
    number = os.environ.pop(EMBEDDED_LOCK, "")
    if not number:
        return None
    fd = int(number)
    os.set_inheritable(fd, False)
    return fd
