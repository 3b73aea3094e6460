"""Every key a settings source may hold, and the reader that understands it."""

from stoker.settings.readers import (
    Reader,
    absolute_path,
    address,
    choice,
    database_url,
    duration,
    flag,
    fraction,
    modules,
    size,
    whole,
)

_DAY = 86_400.0
_KIB, _MIB = 1024, 1024 * 1024

SCALARS: dict[str, Reader] = {
    "app": modules,
    "database_url": database_url,
    "direct_database_url": database_url,
    "grace": duration(0.5, _DAY),
    "health": address,
    "lease": duration(1, _DAY),
    # An observer trusts its own clock over gaps of 3 s at most, and a host without its lock itself for 10 s less this.
    "renew_every": duration(0.05, 1.5),
    "kill_after": duration(0.05, 5),
    "boot_deadline": duration(1, 3600),
    "max_boot_failures": whole(1, 1000),
    "max_crashes": whole(1, 100),
    "poll_every": duration(0.01, 60),
    "batch": whole(1, 1000),
    "row_locks": choice("auto", "off"),
    "max_payload": size(_KIB, 128 * _MIB),
    "max_result": size(0, 16 * _MIB),
    "notify": flag,
    "require_idempotency": flag,
    "require_tenant": flag,
    "log_format": choice("auto", "json", "text"),
    "log_level": choice("debug", "info", "warning", "error"),
    "runtime_dir": absolute_path,
}

RETENTION: dict[str, Reader] = {state: duration(0, 3650 * _DAY) for state in ("done", "dead", "cancelled")}

QUEUE: dict[str, Reader] = {
    "processes": whole(1, 256),
    "ack": choice("batch", "each"),
    "concurrency": whole(1, 1000),
    "max_jobs": whole(1, 10**9),
    "max_rss": size(_MIB, 2**50),
    "max_age": duration(1, 3650 * _DAY),
    "kill_rss": size(_MIB, 2**50),
    "jitter": fraction(0, 0.9),
}

TABLES = ("queues", "retention")
