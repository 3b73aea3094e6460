"""Where the embedded server keeps its things."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

ROOT_VARIABLE = "STOKER_PG_ROOT"
# A Unix socket address holds 107 bytes, of which "/.s.PGSQL.65535.lock" takes 20.
LONGEST_SOCKET_DIR = 85


def default_root() -> Path:
    """`STOKER_PG_ROOT`, else `/var/lib/stoker` for root, else `.stoker` in the working directory."""
    if given := os.environ.get(ROOT_VARIABLE):
        return Path(given)
    return Path("/var/lib/stoker") if os.geteuid() == 0 else Path(".stoker")


@dataclass(frozen=True)
class Layout:
    """The names inside one root directory.

    Everything directly in the root belongs to the user who started the server; `cluster` and the socket directory
    belong to the account PostgreSQL runs as, so that root never follows a name that account could have planted.
    """

    root: Path

    @classmethod
    def of(cls, root: Path | None) -> "Layout":
        return cls((root or default_root()).resolve())

    @property
    def users_lock(self) -> Path:
        """Held shared by every user of the server, and exclusively by the guardian while it stops."""
        return self.root / "users.lock"

    @property
    def start_lock(self) -> Path:
        """Held by the one client that starts the server or finds it running."""
        return self.root / "start.lock"

    @property
    def guardian_lock(self) -> Path:
        """Held by the guardian for life; holds its pid."""
        return self.root / "guardian.lock"

    @property
    def hold(self) -> Path:
        """Exists while the server is to stay up without users."""
        return self.root / "hold"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def cluster(self) -> Path:
        return self.root / "cluster"

    @property
    def data(self) -> Path:
        return self.cluster / "data"

    @property
    def socket_dir(self) -> Path:
        inside = self.root / "run"
        # In a URL a comma separates several hosts, quoted or not.
        if len(os.fsencode(inside)) <= LONGEST_SOCKET_DIR and "," not in str(inside):
            return inside
        # Not tempfile.gettempdir(): every client must come to the same name whatever its TMPDIR.
        return Path("/tmp") / f"stoker-{hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]}"
