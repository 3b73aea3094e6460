"""The control groups this process belongs to: limits of CPU and memory, and where their events are counted."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

PROC: Final = Path("/proc/self/cgroup")
CGROUPS: Final = Path("/sys/fs/cgroup")

# v1 writes "no limit" as the largest number of whole pages.
_NO_LIMIT: Final = 2**60


def cpu_quotas(*, proc: Path = PROC, cgroups: Path = CGROUPS) -> list[float]:
    """List the CPU quotas that hold for this process, in CPUs."""
    found = []
    for group in groups("cpu", proc=proc, cgroups=cgroups):
        v2 = read(group / "cpu.max").split()
        v1 = [*read(group / "cpu.cfs_quota_us").split(), *read(group / "cpu.cfs_period_us").split()]
        limits = (limit for limit in (v2, v1) if len(limit) == 2)
        found += [int(quota) / int(period) for quota, period in limits if _positive(quota) and _positive(period)]
    return found


def memory_limits(*, proc: Path = PROC, cgroups: Path = CGROUPS) -> list[int]:
    """List the memory limits that hold for this process, in bytes."""
    found = []
    for group in groups("memory", proc=proc, cgroups=cgroups):
        words = [read(group / "memory.max").strip(), read(group / "memory.limit_in_bytes").strip()]
        found += [int(word) for word in words if _positive(word)]
    return [limit for limit in found if limit < _NO_LIMIT]


def memory_events(*, proc: Path = PROC, cgroups: Path = CGROUPS) -> Path | None:
    """Find the file in which the kernel counts the `oom_kill`s of this process's group, if there is one."""
    for group in groups("memory", proc=proc, cgroups=cgroups):
        for file in (group / "memory.events", group / "memory.oom_control"):
            if "oom_kill " in read(file):
                return file
    return None


def groups(controller: str, *, proc: Path, cgroups: Path) -> Iterator[Path]:
    """Yield the directories of this process's groups (v2, or v1 with that controller), innermost first."""
    for line in read(proc).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        inside = PurePosixPath(*(part for part in PurePosixPath(path).parts if part not in ("/", "..")))
        for group in (inside, *inside.parents):
            yield cgroups / controllers / group


def read(path: Path) -> str:
    """Return the text of a file, or nothing where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _positive(word: str) -> bool:
    return word.isdigit() and int(word) > 0
