"""The common shape of all errors: a stable code, what happened to whom, and what the reader can do about it."""

from typing import Any, ClassVar

OK = 0
FAILED = 1
GAVE_UP = 70
KILLED = 75
CONFIG = 78


class StokerError(Exception):
    """Base of every error raised on purpose.

    `code` never changes once published; `exit_code` is what a command ends with; `terminal` tells the retry policy
    that another attempt cannot help. `cause` says what happened and to whom, `fix` is a command or an edit.
    """

    code: ClassVar[str] = "STOKER_ERROR"
    exit_code: ClassVar[int] = FAILED
    terminal: ClassVar[bool] = False

    def __init__(self, *, cause: str, fix: str) -> None:
        super().__init__(cause, fix)
        self.cause = cause
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.code}: {self.cause} Fix: {self.fix}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class Aborted(BaseException):
    """Ends a handler whose run signal was aborted; a BaseException so that `except Exception` does not eat it."""

    code: str = "STOKER_ABORTED"

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        if reason == "lease_lost":
            self.code = "STOKER_LEASE_LOST"

    def __str__(self) -> str:
        return f"{self.code}: The run was aborted: {self.reason}."

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class Interrupted(Aborted, KeyboardInterrupt):
    """Unwinds a synchronous handler from outside.

    It is a KeyboardInterrupt because psycopg puts a connection in order after that one and after no other
    BaseException.
    """


def _rebuild(kind: type[BaseException], args: tuple[Any, ...], facts: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


def sentence(text: str) -> str:
    """Close a text that came from elsewhere with a full stop, on one line."""
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
