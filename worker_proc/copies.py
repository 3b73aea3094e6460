"""Ends a copy of a worker: what `os.fork` in a handler made, when it comes back from the handler as well."""

from __future__ import annotations

import os
import sys
import traceback

from stoker.errors import FAILED, OK


def leave(error: BaseException | None) -> None:
    """End this process as a script would end: after `sys.exit` by its code, after another error with its traceback.

    Connection, control socket and board belong to the original; a copy that went on would talk into all of them.
    """
    code = _exit_code(error)
    try:
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    finally:
        os._exit(code)


def refuse(original: int, instead: str) -> None:
    """Raise RuntimeError in a copy: what it asks for goes over the connection of the original, whose pid this is."""
    if os.getpid() != original:
        raise RuntimeError(f"process {os.getpid()} is a copy of worker {original} and has no connection; use {instead}")


def _exit_code(error: BaseException | None) -> int:
    if error is None:
        return OK
    if not isinstance(error, SystemExit):
        return FAILED
    if error.code is None:
        return OK
    return error.code & 0xFF if isinstance(error.code, int) else FAILED
