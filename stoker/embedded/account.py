"""The account PostgreSQL runs as: the caller's own, or for root an unprivileged one."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.embedded.errors import ServerAccountMissing
from stoker.embedded.paths import Layout


@dataclass(frozen=True)
class Account:
    """Whom the server's processes run as and who owns its files."""

    uid: int
    gid: int

    @property
    def is_caller(self) -> bool:
        return self.uid == os.geteuid()

    def popen_args(self) -> Mapping[str, Any]:
        """Arguments that make `subprocess` run a program as this account."""
        return {} if self.is_caller else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def give(self, path: Path) -> None:
        if not self.is_caller:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account(layout: Layout) -> Account:
    """The caller; for root the owner of the existing cluster, else `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    # An account `postgres` made after the cluster (apt install postgresql) must not lock us out of it.
    if layout.cluster.is_dir() and (owner := layout.cluster.lstat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ServerAccountMissing
