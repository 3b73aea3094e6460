"""`stoker` lists its commands, imports the one that is asked for, and ends like other programs."""

import subprocess
import sys
from typing import Any

import pytest

from tests.console.conftest import Console
from tests.processes import ROOT

COMMANDS = [
    *(["run"], ["check"], ["migrate"], ["enqueue"], ["jobs"], ["queues"], ["pg"], ["queues", "ls"]),
    *(["jobs", command] for command in ("ls", "show", "retry", "cancel")),
    *(["pg", command] for command in ("start", "stop", "url", "psql")),
]
UNTIL_EXEC = """
import os, sys
from stoker.console import main

def execve(*_):
    print(*sys.modules)
    raise SystemExit

os.execve = execve
sys.argv = ["stoker", "run", "--app", "a.b", "--database-url", "postgresql://u@127.0.0.1:1/x"]
main()
"""


def test_help_lists_every_command_with_what_it_does(console: Console) -> None:
    listed = console("--help").out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == ["run", "check", "migrate", "enqueue", "jobs", "queues", "pg"]
    assert all(len(line.split()) > 1 and not line.endswith("...") for line in listed)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(console: Console, command: list[str]) -> None:
    told = console(*command, "-h")
    assert told == console(*command, "--help")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"Usage: stoker {' '.join(command)} [OPTIONS]")


@pytest.mark.parametrize("command", [[], ["jobs"], ["queues"], ["pg"]], ids=" ".join)
def test_a_group_alone_is_a_usage_error(console: Console, command: list[str]) -> None:
    assert console(*command).code == 2
    assert console(*command, "no-such-command").code == 2


def test_an_interrupt_ends_a_command_quietly(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stoker.settings.load", interrupted)
    told = console("migrate")
    assert (told.code, told.out, told.err) == (130, "", "")


def test_run_imports_no_other_command_and_nothing_that_only_others_need() -> None:
    told = subprocess.run([sys.executable, "-c", UNTIL_EXEC], cwd=ROOT, capture_output=True, text=True, check=True)
    imported = set(told.stdout.split())
    others = {f"stoker.console.{module}" for module in ("checking", "migrating", "enqueueing", "jobs", "queues", "pg")}
    assert "stoker.console.running" in imported
    assert not imported & {*others, "rich", "psycopg", "psutil", "asyncio", "stoker.embedded", "stoker.migrate"}
