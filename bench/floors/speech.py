"""How a floor talks with the benchmark: JSON lines out, "go" in."""

from __future__ import annotations

import json
import sys
from typing import Any


def say(word: Any) -> None:
    """One line."""
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


def wait_for_go() -> None:
    """Until told, or until the benchmark is gone: then this process goes too."""
    if not sys.stdin.readline():
        sys.exit(1)
