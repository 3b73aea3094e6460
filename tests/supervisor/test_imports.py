"""What is not imported by those who do not need it: every start waits for what is."""

import subprocess
import sys

import pytest

from tests.processes import ROOT

CONSOLE = {"rich", "click"}
HEAVY = {"psycopg", "prometheus_client", "psutil", "croniter", "asyncio"}


def imported_by(module: str) -> set[str]:
    """The top-level modules in a fresh interpreter that imported this one."""
    script = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    told = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(told.stdout.split())


@pytest.mark.parametrize("module", ["stoker", "supervisor.cli", "stoker.embedded"])
def test_neither_the_console_nor_what_few_need(module: str) -> None:
    assert not imported_by(module) & (CONSOLE | HEAVY)


def test_the_console_starts_without_the_database_library() -> None:
    assert not imported_by("stoker.console") & HEAVY


def test_the_first_fork_server_is_started_before_anything_of_ours_is_imported() -> None:
    assert not imported_by("supervisor.launching") & {"stoker", "worker_proc", "msgspec"}


def test_children_have_what_they_need_before_they_are_forked() -> None:
    script = (
        "import sys; from supervisor import fork_server; fork_server.serve = lambda *a, **k: None;"
        " fork_server.Channel.from_fd = lambda fd: None; sys.argv[1:] = ['0']; fork_server.main();"
        " before = set(sys.modules); import worker_proc.keeper, worker_proc.worker, worker_proc.child;"
        " print(sorted(set(sys.modules) - before), 'psycopg' in before)"
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[] True"
