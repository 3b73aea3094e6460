"""Loads the application in the process that forks everybody else."""

from __future__ import annotations

import gc
from collections.abc import Sequence

from stoker.application import import_application


def load_app(modules: Sequence[str]) -> list[str]:
    """Import the modules and return the sorted names of the jobs they declare.

    Everything loaded is moved out of the garbage collector's sight, so that children do not copy its pages. Raises
    AppNotImportable, and what a wrong declaration raises.
    """
    names = import_application(modules).names()
    gc.collect()
    gc.freeze()
    return names
