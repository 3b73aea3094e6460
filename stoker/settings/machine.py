"""What the settings take from the machine: how many CPUs are ours, and where lock files can live."""

import math
import os
from pathlib import Path, PurePosixPath

_MOST_PROCESSES = 8


def default_processes(*, proc: Path = Path("/proc/self/cgroup"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Count the CPUs this process may really use (affinity and cgroup quota), at least 1 and at most 8."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cpus, math.ceil(cpu_quota(proc=proc, cgroups=cgroups)), _MOST_PROCESSES))


def cpu_quota(*, proc: Path, cgroups: Path) -> float:
    """Return the smallest CPU quota of this process's control groups (v2 or v1), in CPUs, or the number of CPUs."""
    quotas = [float(os.cpu_count() or 1)]
    for line in _read(proc).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        inside = PurePosixPath(*(part for part in PurePosixPath(path).parts if part not in ("/", "..")))
        for group in (inside, *inside.parents):
            quotas += _group_quota(cgroups / controllers / group)
    return min(quotas)


def usable_directory(candidates: list[Path]) -> Path:
    """Create and return the first candidate that is, or becomes, a directory of ours that only we can open.

    Raises OSError with the last candidate's problem when there is none.
    """
    problem = OSError("no directory to try")
    for directory in candidates:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_ours(directory)
        except OSError as error:
            problem = error
        else:
            return directory
    raise problem


def runtime_directories() -> list[Path]:
    """List where lock files may be kept by default, best first."""
    # It costs more to import than the rest of this package, and few ask.
    import tempfile

    user = os.geteuid()
    system = [Path("/run/stoker")] if user == 0 else []
    session = [Path(os.environ["XDG_RUNTIME_DIR"]) / "stoker"] if os.environ.get("XDG_RUNTIME_DIR") else []
    return [*system, *session, Path(tempfile.gettempdir()) / f"stoker-{user}"]


def _check_ours(directory: Path) -> None:
    facts = directory.lstat()
    if facts.st_uid != os.geteuid() or directory.is_symlink():
        raise PermissionError(f"{directory} belongs to somebody else")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"{directory} is not writable")


def _group_quota(group: Path) -> list[float]:
    v2 = _read(group / "cpu.max").split()
    v1 = [*_read(group / "cpu.cfs_quota_us").split(), *_read(group / "cpu.cfs_period_us").split()]
    for limit in (v2, v1):
        if len(limit) == 2 and all(word.isdigit() and int(word) > 0 for word in limit):
            return [int(limit[0]) / int(limit[1])]
    return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
