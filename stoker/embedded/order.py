"""What a client tells the guardian it starts, and what the guardian answers."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker.embedded.errors import OptionsInvalid

OPTIONS_VARIABLE = "STOKER_PG_OPTIONS"
DEFAULT_PORT = 5432
READY = b"ready\n"
# For a job queue on a small box: many short sessions, small statements, dead rows that must go soon.
BASE_SETTINGS = {
    "autovacuum_naptime": "15s",
    "cluster_name": "stoker",
    "jit": "off",
    "log_checkpoints": "off",
    "max_connections": "200",
    "shared_buffers": "128MB",
}


@dataclass(frozen=True)
class Order:
    """Which server to run; `port` 0 means no TCP, `lock_fd` is the guardian's lock, taken for it by the client."""

    root: str
    bin_dir: str
    port: int
    settings: Mapping[str, str]
    lock_fd: int

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "Order":
        return cls(**json.loads(text))

    def command(self, *, data: Path, socket_dir: Path) -> list[str]:
        """The server's command line; the data directory comes first, which is how others recognise the process."""
        listen = "127.0.0.1" if self.port else ""
        quoted = str(socket_dir).replace('"', '""')
        settings = {**self.settings, "listen_addresses": listen, "unix_socket_directories": f'"{quoted}"'}
        command = [f"{self.bin_dir}/postgres", "-D", str(data), "-p", str(self.port or DEFAULT_PORT)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command


def wanted_settings(given: Mapping[str, str] | None) -> dict[str, str]:
    """Ours, overridden by `STOKER_PG_OPTIONS` ("fsync=off work_mem=8MB"), overridden by the caller's."""
    words = shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))
    return BASE_SETTINGS | dict(_pair(word) for word in words) | dict(given or {})


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals):
        raise OptionsInvalid(variable=OPTIONS_VARIABLE, word=word)
    return name, value
