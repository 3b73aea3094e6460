"""What the settings take from the machine: how many processes fit, and where lock files can live."""

import math
import os
from pathlib import Path

from stoker.settings.cgroups import CGROUPS, PROC, cpu_quotas, memory_limits

_MOST_PROCESSES = 8
_LEAST_MEMORY = 128 * 2**20


def default_processes(*, proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Count the processes this machine has room for: at least 1 and at most 8.

    One for each CPU that is ours (affinity and CPU quota), and where the memory of our control group is limited no
    more than one for each 128 MiB.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(quota) for quota in cpu_quotas(proc=proc, cgroups=cgroups)]
    room = [limit // _LEAST_MEMORY for limit in memory_limits(proc=proc, cgroups=cgroups)]
    return max(1, min(cpus, *quotas, _MOST_PROCESSES, *room))


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
