"""Imports an application and runs its preload hooks, and says readably why one of them cannot be used."""

from __future__ import annotations

import importlib
import inspect
import threading
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from stoker import registry
from stoker.errors import AppNotImportable, PreloadFailed, StokerError
from stoker.registry import Hook, Registry

_FRAMES_SHOWN: Final = 4


def import_application(modules: Sequence[str]) -> Registry:
    """Import the modules in order and return what they declare.

    Raises AppNotImportable for a module that fails, exits, or leaves threads running (a fork would copy their locks),
    and what a wrong declaration raises.
    """
    for module in modules:
        _import(module)
    return registry.current()


def preload_application(declared: Registry) -> int:
    """Run the preload hooks that did not run in this process yet, in their order; returns how many those were.

    Raises PreloadFailed for one that fails, exits, wants an event loop, or leaves threads running.
    """
    hooks = declared.to_preload
    for hook in hooks:
        _preload(hook)
        declared.preloaded(hook)
    return len(hooks)


def describe(error: StokerError) -> str:
    """One readable line, then where in the application it happened."""
    cause = error.__cause__
    where = "".join(traceback.format_tb(_own_frames(cause.__traceback__), -_FRAMES_SHOWN)) if cause else ""
    return f"{error}\n{where}".strip()


def _import(module: str) -> None:
    before = set(threading.enumerate())
    try:
        importlib.import_module(module)
    except (StokerError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise AppNotImportable(module=module, error=_said(error)) from error
    if threads := _threads_since(before):
        raise AppNotImportable(module=module, error=f"importing it starts {threads}")


def _preload(hook: Hook) -> None:
    before = set(threading.enumerate())
    name = registry.place(hook)
    try:
        outcome = hook()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PreloadFailed(hook=name, error=_said(error)) from error
    if inspect.iscoroutine(outcome):
        outcome.close()
        raise PreloadFailed(hook=name, error="it returned a coroutine, and no event loop survives the fork")
    if threads := _threads_since(before):
        raise PreloadFailed(hook=name, error=f"it leaves {threads}")


def _said(error: BaseException) -> str:
    # The last line of the report is what Python itself would say; a SyntaxError's holds no place, so add it.
    said = traceback.format_exception_only(error)[-1].strip()
    return f"{said} ({error.filename}, line {error.lineno})" if isinstance(error, SyntaxError) else said


def _threads_since(before: set[threading.Thread]) -> str:
    if not (started := set(threading.enumerate()) - before):
        return ""
    listed = ", ".join(sorted(thread.name for thread in started))
    return f"threads ({listed}), and a process with threads cannot be forked safely; start them in an @on_start hook"


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the import machinery at its head."""
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(("<frozen", __file__)):
        trace = trace.tb_next
    if trace and "importlib" in trace.tb_frame.f_code.co_filename and trace.tb_next:
        return _own_frames(trace.tb_next)
    return trace
