"""Makes the data directory: complete with its database, or not at all."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from stoker.embedded.account import Account
from stoker.embedded.paths import Layout
from stoker.embedded.programs import program_args

USER = "postgres"
DATABASE = "stoker"
_UNFINISHED = "unfinished-"


class ClusterUnfinished(Exception):
    """The cluster could not be completed; what the program said is in the log."""


def ensure_cluster(*, layout: Layout, bin_dir: Path, account: Account, settings: Mapping[str, str]) -> None:
    """Build the cluster beside its place and rename it there, so that an interrupted build is never taken for one."""
    _own_directory(layout.cluster, account)
    for left in layout.cluster.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left)
    if layout.data.exists():
        return
    building = Path(tempfile.mkdtemp(dir=layout.cluster, prefix=_UNFINISHED))
    account.give(building)
    durable = settings.get("fsync", "on") != "off"
    _initialise(building, bin_dir, account, durable=durable)
    _create_database(building, bin_dir, account, durable=durable)
    building.rename(layout.data)
    _sync_directory(layout.cluster)


def ensure_socket_dir(layout: Layout, account: Account) -> None:
    """A private, empty socket directory; refuses one that somebody else made first."""
    _own_directory(layout.socket_dir, account)
    for left in layout.socket_dir.glob(".s.PGSQL.*"):
        left.unlink()


def remove_socket_dir(layout: Layout) -> None:
    """Leave nothing in the shared temporary directory."""
    if layout.socket_dir.parent != layout.root:
        shutil.rmtree(layout.socket_dir, ignore_errors=True)


def _own_directory(path: Path, account: Account) -> None:
    try:
        path.mkdir(mode=0o700)
        account.give(path)
    except FileExistsError:
        status = path.lstat()
        if path.is_symlink() or not path.is_dir() or status.st_uid != account.uid:
            raise PermissionError(f"{path} is not a directory of uid {account.uid}") from None


def _initialise(building: Path, bin_dir: Path, account: Account, *, durable: bool) -> None:
    command = [f"{bin_dir}/initdb", "-D", str(building), "-U", USER, "-E", "UTF8", "--locale=C", "--no-instructions"]
    command += ["--auth-local=trust", "--auth-host=scram-sha-256"]
    command += [] if durable else ["--no-sync"]
    subprocess.run(command, check=True, **program_args(account, ends_with_us_by=signal.SIGKILL))


def _create_database(building: Path, bin_dir: Path, account: Account, *, durable: bool) -> None:
    fsync = f"fsync={'on' if durable else 'off'}"
    command = [f"{bin_dir}/postgres", "--single", "-D", str(building), "-c", fsync, "postgres"]
    args = {
        **program_args(account, ends_with_us_by=signal.SIGKILL),
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }
    args.pop("stdin")
    told = subprocess.run(command, input=f"CREATE DATABASE {DATABASE}\n", text=True, check=True, **args).stdout
    if "ERROR:" in told:  # single-user mode goes on after an error
        sys.stderr.write(told)
        raise ClusterUnfinished(f"could not create the database {DATABASE}")


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
