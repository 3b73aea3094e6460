"""Imports an application in this process, to look at its jobs or to use their defaults."""

import contextlib
import importlib
import sys
import threading
from collections.abc import Sequence

from stoker import registry
from stoker.errors import AppNotImportable, StokerError
from stoker.registry import Registry


def import_application(modules: Sequence[str]) -> Registry:
    """Import the modules as the supervisor would, from the working directory; what they print goes to standard error.

    Raises AppNotImportable for one that fails or exits, and what a wrong declaration raises.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    with contextlib.redirect_stdout(sys.stderr):
        for module in modules:
            _import(module)
    return registry.current()


def _import(module: str) -> None:
    before = set(threading.enumerate())
    try:
        importlib.import_module(module)
    except StokerError:
        raise
    except (Exception, SystemExit) as error:
        raise AppNotImportable(module=module, error=f"{type(error).__name__}: {error}") from error
    if started := set(threading.enumerate()) - before:
        names = ", ".join(sorted(thread.name for thread in started))
        why = f"importing it starts threads ({names}), which do not survive a fork; start them in an @on_start hook"
        raise AppNotImportable(module=module, error=why)
