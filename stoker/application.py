"""Imports the modules that declare an application's jobs, and says readably why one of them cannot be used."""

from __future__ import annotations

import importlib
import threading
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from stoker import registry
from stoker.errors import AppNotImportable, StokerError
from stoker.registry import Registry

_FRAMES_SHOWN: Final = 4


def import_application(modules: Sequence[str]) -> Registry:
    """Import the modules in order and return what they declare.

    Raises AppNotImportable for a module that fails, exits, or leaves threads running (a fork would copy their locks),
    and what a wrong declaration raises.
    """
    for module in modules:
        _import(module)
    return registry.current()


def describe(error: StokerError) -> str:
    """One readable line, then where in the application it happened."""
    cause = error.__cause__
    where = "".join(traceback.format_tb(_own_frames(cause.__traceback__), -_FRAMES_SHOWN)) if cause else ""
    return f"{error}\n{where}".strip()


def _import(module: str) -> None:
    before = set(threading.enumerate())
    try:
        importlib.import_module(module)
    except StokerError:
        raise
    except (Exception, SystemExit) as error:
        # The last line of the report is what Python itself would say; a SyntaxError's holds no place, so add it.
        said = traceback.format_exception_only(error)[-1].strip()
        if isinstance(error, SyntaxError):
            said += f" ({error.filename}, line {error.lineno})"
        raise AppNotImportable(module=module, error=said) from error
    if started := set(threading.enumerate()) - before:
        listed = ", ".join(sorted(thread.name for thread in started))
        raise AppNotImportable(
            module=module,
            error=f"importing it starts threads ({listed}), and a process with threads cannot be forked safely; "
            "start them in an @on_start hook",
        )


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the import machinery at its head."""
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(("<frozen", __file__)):
        trace = trace.tb_next
    if trace and "importlib" in trace.tb_frame.f_code.co_filename and trace.tb_next:
        return _own_frames(trace.tb_next)
    return trace
