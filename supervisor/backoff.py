"""How long a seat waits after a child that died too soon, or was never born. Pure but for the dice."""

from __future__ import annotations

import random
from typing import Final

FIRST_S: Final = 0.1
CAP_S: Final = 30.0
# The system had nothing for a new process; the fork server ended before it answered.
SHORTAGE_NS: Final = 1_000_000_000
AGAIN_NS: Final = 100_000_000


def delay_s(failures: int, *, cap_s: float = CAP_S, roll: float | None = None) -> float:
    """Seconds to wait after this many failures in a row: 0.1·2ⁿ up to the cap, less up to a fifth by chance."""
    if failures <= 0:
        return 0.0
    full = min(cap_s, FIRST_S * 2.0 ** min(failures - 1, 20))
    return full * (1 - 0.2 * (random.random() if roll is None else roll))
