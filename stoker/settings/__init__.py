"""Settings: `stoker.toml` or `[tool.stoker]`, overridden by `STOKER_*`, overridden by flags."""

from stoker.settings.loading import load, resolve_runtime_dir
from stoker.settings.machine import default_processes
from stoker.settings.model import (
    LogFormat,
    LogLevel,
    QueueSettings,
    RetentionSettings,
    Settings,
    from_json,
    to_json,
)
from stoker.settings.sources import parse_queue_flag

__all__ = [
    "LogFormat",
    "LogLevel",
    "QueueSettings",
    "RetentionSettings",
    "Settings",
    "default_processes",
    "from_json",
    "load",
    "parse_queue_flag",
    "resolve_runtime_dir",
    "to_json",
]
