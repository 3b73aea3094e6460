"""Errors of surroundings: settings, application, platform, database and schema."""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.errors.base import CONFIG, StokerError, sentence
from stoker.urls import describe_url, redact_url


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in the settings: where it stands (`stoker.toml`, `STOKER_GRACE`, …), which key, what is wrong."""

    source: str
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.key, self.message) if part)


class SettingsInvalid(StokerError):
    """The settings have mistakes; all of them are listed, one per line."""

    code = "STOKER_SETTINGS_INVALID"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        lines = "".join(f"\n  {_one_line(problem)}" for problem in self.problems)
        count = "a mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        super().__init__(
            cause=f"The settings have {count}:{lines}\n",
            fix="Correct the lines above and try `stoker check`; docs/configuration.md lists every setting.",
        )


def _one_line(problem: Problem) -> str:
    return redact_url(" ".join(str(problem).split())).encode(errors="replace").decode()


class AppNotImportable(StokerError):
    """A module named in `app` cannot be imported."""

    code = "STOKER_APP_NOT_IMPORTABLE"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, module: str, error: str) -> None:
        super().__init__(
            cause=f"The application module {module!r} cannot be imported: {sentence(redact_url(error))}",
            fix=f"Make `python -c 'import {module}'` work in this directory, or correct `app` in stoker.toml.",
        )


class PreloadFailed(StokerError):
    """A hook that was to load something before any worker is forked did not do so."""

    code = "STOKER_PRELOAD_FAILED"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, hook: str, error: str) -> None:
        super().__init__(
            cause=f"The preload hook {hook} failed: {sentence(redact_url(error))}",
            fix="Repair it and try `stoker check`, or do in an @on_start hook what may fail for a while.",
        )


class HealthAddressUnusable(StokerError):
    """The health server cannot listen where the settings say."""

    code = "STOKER_HEALTH_ADDRESS_UNUSABLE"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, host: str, port: int, error: str) -> None:
        super().__init__(
            cause=f"The health server cannot listen on {host}:{port}: {sentence(error)}",
            fix=f"End whoever listens there (`ss -ltnp 'sport = :{port}'` names it), or choose another address with "
            "`health` in stoker.toml (STOKER_HEALTH, --health); port 0 takes a free one, `off` means none.",
        )


class PlatformUnsupported(StokerError):
    """This command needs Linux; the library itself does not."""

    code = "STOKER_PLATFORM_UNSUPPORTED"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, command: str, platform: str) -> None:
        super().__init__(
            cause=f"`{command}` needs Linux 5.4 or newer; this is {platform}.",
            fix="Run it in a Linux container or virtual machine; importing stoker and enqueueing work here.",
        )


class DriverUnavailable(StokerError):
    """The database does not answer."""

    code = "STOKER_DRIVER_UNAVAILABLE"

    def __init__(self, *, url: str, error: str) -> None:
        self.place = describe_url(url)
        super().__init__(
            cause=f"PostgreSQL at {self.place} is not available: {sentence(redact_url(error))}",
            fix="Start it, or correct database_url in stoker.toml (STOKER_DATABASE_URL, --database-url).",
        )


class DatabaseNotGiven(DriverUnavailable):
    """Nobody said which database, and no embedded one is running."""

    def __init__(self) -> None:
        StokerError.__init__(
            self,
            cause="No database_url is set and no embedded PostgreSQL is running in its directory (STOKER_PG_ROOT, else "
            "/var/lib/stoker for root, else .stoker here).",
            fix="Start the workers (`stoker run`) or the embedded server (`stoker pg start`), or set database_url in "
            "stoker.toml or STOKER_DATABASE_URL.",
        )


class DriverNotImplemented(StokerError):
    """The URL names a queue driver that does not exist yet."""

    code = "STOKER_NOT_IMPLEMENTED"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, scheme: str) -> None:
        super().__init__(
            cause=f"There is no queue driver for {scheme}:// URLs.",
            fix="Set database_url to a postgresql:// URL, or leave it out to use the embedded PostgreSQL.",
        )


class DatabaseUnsupported(StokerError):
    """The database cannot hold jobs: too old, or in an encoding that lacks characters."""

    code = "STOKER_DATABASE_UNSUPPORTED"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, problem: str, needed: str) -> None:
        super().__init__(cause=f"The database cannot be used: {problem}; {needed} is needed.", fix=_ANOTHER_DATABASE)


_ANOTHER_DATABASE = (
    "Point database_url at another server or database: `create database … encoding 'UTF8' template template0`."
)


class SchemaTooNew(StokerError):
    """A newer version of Stoker has migrated the database beyond what this one can work with."""

    code = "STOKER_SCHEMA_TOO_NEW"
    exit_code = CONFIG
    terminal = True

    def __init__(self, *, version: int, min_code: int, code_version: int) -> None:
        super().__init__(
            cause=f"The database has schema {version}, which needs code of at least {min_code}; "
            f"this installation is {code_version}.",
            fix="Upgrade Stoker here: `pip install --upgrade stoker`.",
        )


class SchemaTooOld(StokerError):
    """The database lacks migrations that this version needs."""

    code = "STOKER_SCHEMA_TOO_OLD"

    def __init__(self, *, needed: int, version: int | None = None) -> None:
        found = "no schema of Stoker, or an older one" if version is None else f"schema {version}"
        super().__init__(
            cause=f"The database has {found}; this installation needs {needed}.",
            fix="Run `stoker migrate`.",
        )
