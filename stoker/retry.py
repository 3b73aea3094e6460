"""Whether and when a failed job is tried again: a pure policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from stoker.errors import JobDeclarationInvalid, StokerError

Kinds = type[BaseException] | tuple[type[BaseException], ...]

MOST_ATTEMPTS = 2**31 - 1
LONGEST_WAIT = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a job is tried and how long it waits in between, in seconds.

    The wait after attempt n is `base * factor ** (n - 1)`, at most `cap`. With `jitter` it is drawn evenly between half
    of that and all of it ("equal jitter"): what failed together does not come back together, and nothing comes back at
    once. An exception with an attribute `retry_after` (seconds or a timedelta) chooses its own wait, up to 366 days.

    `terminal` exceptions end the job at once; if `retryable` is given, every other exception does too. An exception in
    both is terminal. Stoker's own errors know by themselves whether another attempt can help.
    A run that was stopped at its timeout is tried again unless JobTimeout is in `terminal`.
    """

    attempts: int = 20
    base: float = 1.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: bool = True
    terminal: Kinds = ()
    retryable: Kinds | None = None

    def __post_init__(self) -> None:
        _check("attempts", self.attempts, low=1, high=MOST_ATTEMPTS, whole=True)
        _check("base", self.base, low=0, high=LONGEST_WAIT)
        _check("factor", self.factor, low=1, high=1e9)
        _check("cap", self.cap, low=0, high=LONGEST_WAIT)
        _check_kinds("terminal", self.terminal)
        if self.retryable is not None:
            _check_kinds("retryable", self.retryable)

    def delay(self, attempt: int, rng: Random) -> float:
        """Seconds to wait after the given attempt (1 is the first); between 0 and `cap` for any attempt."""
        longest = self._longest(max(1, attempt) - 1)
        return rng.uniform(longest / 2, longest) if self.jitter else longest

    def delay_after(self, error: BaseException | None, attempt: int, rng: Random) -> float:
        """Like `delay`, unless the error says itself when to come back."""
        wish = _retry_after(error)
        return self.delay(attempt, rng) if wish is None else wish

    def is_terminal(self, error: BaseException) -> bool:
        """True when another attempt cannot help."""
        if isinstance(error, self.terminal) or (isinstance(error, StokerError) and error.terminal):
            return True
        return self.retryable is not None and not isinstance(error, self.retryable)

    def _longest(self, exponent: int) -> float:
        if self.base >= self.cap:
            return self.cap
        if self.base == 0 or self.factor == 1:
            return self.base
        # Clamped before raising: 2.0 ** 1024 is an OverflowError in Python, not infinity.
        reached_cap_at = math.log(self.cap / self.base) / math.log(self.factor)
        if exponent >= reached_cap_at:
            return self.cap
        try:
            return min(self.cap, self.base * self.factor**exponent)
        except OverflowError:  # A base next to zero times what is beyond any float.
            return self.cap


def _retry_after(error: BaseException | None) -> float | None:
    try:
        wish = getattr(error, "retry_after", None)
    except Exception:  # noqa: BLE001  (a foreign property; the retry must not fail over it)
        return None
    if isinstance(wish, timedelta):
        wish = wish.total_seconds()
    if isinstance(wish, bool) or not isinstance(wish, int | float) or wish != wish or wish == math.inf:
        return None
    return float(min(max(0, wish), LONGEST_WAIT))


def _check(argument: str, value: object, *, low: float, high: float, whole: bool = False) -> None:
    kind = "a whole number" if whole else "a number"
    allowed = int if whole else (int, float)
    fits = isinstance(value, allowed) and not isinstance(value, bool) and low <= value <= high
    if not fits:
        problem = f"{value!r} is not {kind} between {low:g} and {high:.10g}"
        raise JobDeclarationInvalid(name=None, argument=f"retry.{argument}", problem=problem)


def _check_kinds(argument: str, kinds: object) -> None:
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            problem = f"{kind!r} is not an exception class or a tuple of them"
            raise JobDeclarationInvalid(name=None, argument=f"retry.{argument}", problem=problem)
