"""Loads the application in the process that forks everybody else."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

from stoker import logs
from stoker.application import import_application, preload_application

log = logs.get("fork_server")


def load_app(modules: Sequence[str]) -> list[str]:
    """Import the modules, run their preload hooks and return the sorted names of the jobs they declare.

    Everything loaded is moved out of the garbage collector's sight, so that children do not copy its pages. Raises
    AppNotImportable, PreloadFailed, and what a wrong declaration raises.
    """
    declared = import_application(modules)
    began = time.monotonic()
    if hooks := preload_application(declared):
        log.event("app.preloaded", hooks=hooks, took_s=round(time.monotonic() - began, 3))
    gc.collect()
    gc.freeze()
    return declared.names()
