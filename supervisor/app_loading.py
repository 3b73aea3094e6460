"""Imports the application once, in the process that forks everybody else."""

from __future__ import annotations

import gc
import importlib
import threading
import traceback
from collections.abc import Sequence
from types import TracebackType

from stoker.errors import AppNotImportable

_FRAMES_SHOWN = 4


def load_app(modules: Sequence[str]) -> list[str]:
    """Import the modules and return the sorted names of the jobs they declare.

    Everything loaded is moved out of the garbage collector's sight, so that children do not copy its pages. Raises
    AppNotImportable for a module that fails, exits, or leaves threads running: a fork would copy their locks.
    """
    for module in modules:
        _import(module)
    # Only now: the application may bring its own copy of anything, and the registry belongs to it.
    from stoker.registry import current

    names = sorted(current().names())
    gc.collect()
    gc.freeze()
    return names


def describe(error: AppNotImportable) -> str:
    """One readable line, then where in the application it happened."""
    cause = error.__cause__
    where = "".join(traceback.format_tb(_own_frames(cause.__traceback__), -_FRAMES_SHOWN)) if cause else ""
    return f"{error}\n{where}".strip()


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        # The last line of the report is what Python itself would say; a SyntaxError's holds no place, so add it.
        said = traceback.format_exception_only(error)[-1].strip()
        if isinstance(error, SyntaxError):
            said += f" ({error.filename}, line {error.lineno})"
        raise AppNotImportable(module=module, error=said) from error
    strangers = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if strangers:
        listed = ", ".join(sorted(strangers))
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
