"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.database import Database
from bench.processes import ROOT

_SETTINGS = ("shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "max_wal_size", "jit")


def facts(db: Database, directory: Path) -> dict[str, Any]:
    """Processor, memory, disk, versions, what PostgreSQL is set to, and how busy the machine was already."""
    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "kernel": ".".join(platform.release().split(".")[:2]),
        "file_system": _file_system(directory),
        "load_before": os.getloadavg()[0],
        "python": sys.version.split()[0],
        "psycopg": f"{version('psycopg')} ({psycopg.pq.__impl__}, libpq {psycopg.pq.version()})",
        "postgresql": db.one("select current_setting('server_version')"),
        "postgresql_settings": {name: db.one("select current_setting(%s)", name) for name in _SETTINGS},
        "stoker": version("stoker"),
        "commit": _commit(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    mounts = [part for part in psutil.disk_partitions(all=True) if directory.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else ""


def _commit() -> str:
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return asked.stdout.strip()
