"""The settings as immutable values; they travel to child processes as JSON."""

from typing import Literal

import msgspec

from stoker.settings.machine import default_processes
from stoker.urls import redact_url

AckMode = Literal["batch", "each"]
RowLocks = Literal["auto", "off"]
LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One queue: its worker processes, the lanes in each, when a worker is replaced by a fresh one, when killed."""

    processes: int = msgspec.field(default_factory=default_processes)
    concurrency: int = 1
    max_jobs: int | None = None
    max_rss: int | None = None
    max_age: float | None = None
    kill_rss: int | None = None
    jitter: float = 0.1
    ack: AckMode = "batch"


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long finished jobs are kept, in seconds by state; 0 means not at all."""

    done: float = 86_400.0
    dead: float = 30 * 86_400.0
    cancelled: float = 7 * 86_400.0


def _one_queue() -> dict[str, QueueSettings]:
    return {"default": QueueSettings()}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings; times in seconds, sizes in bytes. docs/configuration.md says what each one is for."""

    app: tuple[str, ...] = ()
    database_url: str | None = None
    direct_database_url: str | None = None
    grace: float = 25.0
    health: tuple[str, int] | None = ("127.0.0.1", 8585)
    queues: dict[str, QueueSettings] = msgspec.field(default_factory=_one_queue)
    retention: RetentionSettings = RetentionSettings()
    lease: float = 30.0
    renew_every: float = 1.0
    kill_after: float = 3.0
    boot_deadline: float = 30.0
    max_boot_failures: int = 5
    max_crashes: int = 3
    poll_every: float = 1.0
    batch: int = 500
    row_locks: RowLocks = "auto"
    max_payload: int = 1024 * 1024
    max_result: int = 64 * 1024
    notify: bool = True
    require_idempotency: bool = False
    require_tenant: bool = False
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"
    runtime_dir: str | None = None

    def __repr__(self) -> str:
        facts = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (f"{name}={redact_url(fact) if isinstance(fact, str) else fact!r}" for name, fact in facts)
        return f"Settings({', '.join(shown)})"


def to_json(settings: Settings) -> bytes:
    """Write settings for a child process; holds the database password, so it goes through a pipe or an fd only."""
    return msgspec.json.encode(settings)


def from_json(data: bytes) -> Settings:
    """Read what `to_json` wrote."""
    return msgspec.json.decode(data, type=Settings)
