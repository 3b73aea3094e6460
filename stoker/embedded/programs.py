"""How the guardian runs PostgreSQL's programs: as whom, with which surroundings, tied to the guardian's life."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from stoker.embedded.account import Account

_PR_SET_PDEATHSIG = 1
_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def surroundings() -> dict[str, str]:
    """A small environment: no secrets of the client's, no PG* variables, English messages, UTC."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def program_args(account: Account, *, ends_with_us_by: signal.Signals) -> Mapping[str, Any]:
    """`subprocess` arguments for a program that gets a signal when this (single-threaded) process dies."""
    return {
        **account.popen_args(),
        "cwd": "/",
        "env": surroundings(),
        "start_new_session": True,
        "stdin": subprocess.DEVNULL,
        "stdout": sys.stderr,
        "stderr": sys.stderr,
        "preexec_fn": _tie_to_parent(ends_with_us_by),
    }


def _tie_to_parent(by: signal.Signals) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl

    def arm() -> None:  # runs after setuid, which would clear it
        prctl(_PR_SET_PDEATHSIG, int(by))
        if os.getppid() != parent:  # not retroactive
            os._exit(1)

    return arm
