"""A process that dies once, where the test says."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

PLACES = ("payload decode", "before the claim is durable", "in the handler", "before settle", "after settle")
KINDS: dict[str, Callable[[], object]] = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda: ctypes.string_at(0),
    "SIGABRT": os.abort,
    "exit": lambda: os._exit(9),
}


def arm(effects: Path, place: str, kind: str) -> None:
    """The next process that comes to this place dies of it; `effects` is the file of its environment."""
    prepared = effects.with_suffix(".prepared")
    prepared.write_text(f"{place}\n{kind}")
    prepared.rename(_bomb(effects))


def is_armed(effects: Path) -> bool:
    """Whether nobody came there yet."""
    return _bomb(effects).exists()


def strike(place: str) -> None:
    """Die here if that was said, and only once."""
    bomb = _bomb(Path(os.environ["TEST_EFFECTS"]))
    if not bomb.exists():
        return
    wanted, kind = bomb.read_text().split("\n")
    if wanted == place:
        bomb.unlink()
        KINDS[kind]()


def _bomb(effects: Path) -> Path:
    return effects.with_suffix(".bomb")
