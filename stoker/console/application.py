"""Imports an application in this process, to look at its jobs or to use their defaults."""

import contextlib
import sys
from collections.abc import Sequence

from stoker.application import import_application, preload_application
from stoker.registry import Registry


def load_application(modules: Sequence[str], *, preload: bool = False) -> Registry:
    """Import the modules as the supervisor would, from the working directory; they print to standard error.

    `preload`: run their preload hooks as well.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    with contextlib.redirect_stdout(sys.stderr):
        declared = import_application(modules)
        if preload:
            preload_application(declared)
    return declared
