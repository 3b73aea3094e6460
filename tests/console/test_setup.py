"""`stoker check`, `stoker migrate`, `stoker run` and what every command says when its surroundings are wrong."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import psycopg
import pytest

from stoker import embedded
from stoker.migrate import code_version
from stoker.settings import load
from tests.console.conftest import Console

WriteApp = Callable[[str, str], str]

NOBODY = "postgresql://u:secret@127.0.0.1:1/x"
APP = """
from stoker import job

@job(queue="mails")
def send(payload: dict) -> None: ...
"""

THREADED = """
import threading

stop = threading.Event()
threading.Thread(target=stop.wait, name="poller", daemon=True).start()
"""
EVERYWHERE = [["run"], ["check"], ["migrate"], ["enqueue", "x"], ["jobs", "ls"], ["queues", "ls"]]


@pytest.fixture
def empty_database(database_url: str) -> Iterator[str]:
    """A database that nobody has migrated."""
    name = f"empty_{os.getpid()}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"create database {name}")
        yield psycopg.conninfo.make_conninfo(database_url, dbname=name)
        admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def pg_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A root for an embedded server of this test."""
    root = Path(tempfile.mkdtemp(prefix="stoker-console-"))
    root.chmod(0o755)
    monkeypatch.setenv("STOKER_PG_ROOT", str(root))
    monkeypatch.setenv("STOKER_PG_OPTIONS", "fsync=off")
    yield root
    embedded.wait_until_stopped(root)
    shutil.rmtree(root)


def test_help_and_version_answer(console: Console) -> None:
    assert console("--version").out == f"stoker 0.1.0 (schema {code_version()})\n"
    told = console("--help").out
    assert all(command in told for command in ("run", "check", "migrate", "enqueue", "jobs", "queues", "pg"))
    for command in (["run"], ["check"], ["migrate"], ["enqueue"], ["jobs", "ls"], ["queues", "ls"], ["pg"]):
        assert console(*command, "--help").code == 0


READERS = [["jobs", "ls"], ["jobs", "show", "1"], ["queues", "ls"], ["jobs", "retry", "1"], ["jobs", "cancel", "1"]]
DATABASE_USERS = [*READERS, ["migrate"], ["enqueue", "x"]]


@pytest.mark.parametrize("command", DATABASE_USERS, ids=" ".join)
def test_a_database_that_does_not_answer_is_named_without_its_password(console: Console, command: list[str]) -> None:
    told = console(*command, "--database-url", NOBODY)
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("STOKER_DRIVER_UNAVAILABLE: PostgreSQL at 127.0.0.1:1/x is not available: ")
    assert told.err.count("Fix: ") == 1
    assert "secret" not in told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize("command", DATABASE_USERS, ids=" ".join)
def test_an_address_that_is_none_ends_with_78(console: Console, command: list[str]) -> None:
    told = console(*command, "--database-url", "http://example.org")
    assert told.code == 78
    assert "--database-url: database_url: expected a postgresql:// URL, got a http:// one" in told.err


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_reading_commands_start_no_server(console: Console, tmp_path: Path, command: list[str]) -> None:
    told = console(*command)
    assert told.code == 1
    assert told.err.startswith("STOKER_DRIVER_UNAVAILABLE: No database_url is set and no embedded PostgreSQL")
    assert not (tmp_path / "no-server").exists()


@pytest.mark.parametrize("command", [*READERS, ["enqueue", "x"]], ids=" ".join)
def test_a_database_that_is_not_migrated_is_told_so(console: Console, empty_database: str, command: list[str]) -> None:
    told = console(*command, "--database-url", empty_database)
    assert told.code == 1
    assert told.err.startswith("STOKER_SCHEMA_TOO_OLD: ")
    assert "stoker migrate" in told.err


def test_migrate_tells_what_it_applied(console: Console, empty_database: str) -> None:
    first = console("migrate", "--database-url", empty_database)
    assert first.code == 0
    assert "applied 0001_queue\n" in first.out
    again = console("migrate", "--database-url", empty_database)
    assert (again.code, again.out) == (0, f"up to date (schema {code_version()})\n")


def test_a_database_that_refuses_is_quoted(console: Console, database_url: str, empty_database: str) -> None:
    role = f"nobody_{os.getpid()}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"create role {role} login")
        try:
            poor = psycopg.conninfo.make_conninfo(empty_database, user=role)
            told = console("migrate", "--database-url", poor)
        finally:
            admin.execute(f"drop role {role}")
    assert told.code == 1
    assert told.err.startswith("STOKER_DATABASE_REFUSED: PostgreSQL refused: permission denied for database")
    assert "Traceback" not in told.err


def test_a_schema_from_the_future_ends_with_78(console: Console, empty_database: str) -> None:
    console("migrate", "--database-url", empty_database)
    with psycopg.connect(empty_database) as conn:
        conn.execute("update stoker.meta set version = 9999, min_code = 9999")
    for command in ("migrate", "check"):
        told = console(command, "--database-url", empty_database)
        assert told.code == 78
        assert "STOKER_SCHEMA_TOO_NEW" in told.err


def test_without_a_url_enqueue_starts_and_migrates_the_embedded_server(console: Console, pg_root: Path) -> None:
    assert console("enqueue", "x", '{"a": 1}').out == "1\n"
    assert console("enqueue", "x").out == "2\n"
    assert console("migrate").out == f"up to date (schema {code_version()})\n"
    embedded.wait_until_stopped(pg_root)
    assert console("jobs", "ls").code == 1
    held = embedded.acquire(pg_root)
    try:
        assert [row["id"] for row in console("jobs", "ls", "--json").json] == [2, 1]
        report = console("check", "--json").json
        assert report["database"]["embedded"] is True
        assert report["database"]["schema_version"] == code_version()
    finally:
        held.close()


def test_check_reports_jobs_queues_and_database(on_database: Console, write_app: WriteApp) -> None:
    told = on_database("check", "--app", write_app("checked_a", APP), "--json")
    assert told.code == 0
    report = told.json
    assert report["ok"] is True
    assert report["jobs"] == [{"name": "send", "queue": "mails"}]
    assert report["queues"] == ["default"]
    assert report["database"]["schema_version"] == report["database"]["code_version"] == code_version()
    assert len(report["warnings"]) == 1
    assert "nobody here serves mails" in report["warnings"][0]
    served = on_database("check", "--app", "checked_a", "--queue", "mails=1")
    assert (served.code, served.err) == (0, "")
    assert served.out.splitlines()[-1] == "ok"


def test_check_reports_every_fault_of_the_surroundings(console: Console, write_app: WriteApp) -> None:
    app = write_app("checked_b", "1 / 0")
    told = console("check", "--app", app, "--database-url", NOBODY, "--json")
    assert told.code == 78
    assert told.json["ok"] is False
    assert [error["code"] for error in told.json["errors"]] == [
        "STOKER_APP_NOT_IMPORTABLE",
        "STOKER_DRIVER_UNAVAILABLE",
    ]
    assert "ZeroDivisionError" in told.json["errors"][0]["cause"]
    only_database = console("check", "--database-url", NOBODY)
    assert only_database.code == 1
    assert "STOKER_DRIVER_UNAVAILABLE" in only_database.err


def test_check_refuses_an_application_that_starts_threads(on_database: Console, write_app: WriteApp) -> None:
    told = on_database("check", "--app", write_app("checked_c", THREADED))
    sys.modules["checked_c"].stop.set()
    assert told.code == 78
    assert "poller" in told.err


PRELOADED = """
from stoker import job, preload

ran = []

@preload
def load_table():
    print("loading")
    ran.append(1)
    if "{fault}":
        raise OSError("no table")

@job
def send(payload: dict) -> None: ...
"""


def test_check_runs_and_names_preload_hooks(on_database: Console, write_app: WriteApp) -> None:
    told = on_database("check", "--app", write_app("checked_d", PRELOADED.format(fault="")), "--json")
    assert told.code == 0
    [hook] = told.json["preload"]
    assert hook.startswith("checked_d.load_table (")
    assert sys.modules["checked_d"].ran == [1]
    assert "loading" in told.err
    assert "preloaded: checked_d.load_table (" in on_database("check", "--app", "checked_d").out


def test_check_tells_of_a_preload_hook_that_fails(on_database: Console, write_app: WriteApp) -> None:
    told = on_database("check", "--app", write_app("checked_e", PRELOADED.format(fault="x")))
    assert told.code == 78
    assert "STOKER_PRELOAD_FAILED: The preload hook checked_e.load_table (" in told.err
    assert "OSError: no table" in told.err


def test_enqueueing_preloads_nothing(on_database: Console, write_app: WriteApp) -> None:
    told = on_database("enqueue", "send", "{}", "--app", write_app("checked_f", PRELOADED.format(fault="x")))
    assert told.code == 0, told.err


NONSENSE = """
grase = "25s"
health = "everywhere"
database_url = "mysql://x"
[queues.io]
concurrency = "many"
[retention]
done = -1
"""


@pytest.mark.parametrize(
    "command", [["run"], ["check"], ["migrate"], ["enqueue", "x"], ["jobs", "ls"], ["queues", "ls"]]
)
def test_all_mistakes_of_the_settings_are_told_at_once(
    console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "stoker.toml").write_text(NONSENSE)
    monkeypatch.setenv("STOKER_LEASE", "forever")
    told = console(*command)
    assert (told.code, told.out) == (78, "")
    for key in ("grase", "health", "database_url", "queues.io.concurrency", "retention.done", "STOKER_LEASE: lease"):
        assert key in told.err
    assert told.err.startswith("STOKER_SETTINGS_INVALID: The settings have 6 mistakes:\n")


def test_another_settings_file_can_be_named(console: Console, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("grase = 1")
    assert "other.toml: grase" in console("check", "--config", "other.toml").err
    assert "nowhere.toml: this file does not exist" in console("run", "--config", "nowhere.toml").err


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """What would have been executed."""
    seen: list[tuple[list[str], dict[str, str]]] = []

    def execve(program: str, argv: list[str], environ: dict[str, str]) -> None:
        assert program == sys.executable
        seen.append((argv, environ))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)
    return seen


def test_run_becomes_the_supervisor_and_keeps_secrets_out_of_its_arguments(
    console: Console, executed: list[tuple[list[str], dict[str, str]]]
) -> None:
    options = ["--queue", "default=2", "--queue", "io=1x50", "--app", "a.b", "--grace", "5s", "--health", "off"]
    assert console("run", *options, "--database-url", NOBODY).code == 0
    [(argv, environ)] = executed
    assert argv == [sys.executable, "-m", "supervisor"]
    known = load(orjson.loads(environ["STOKER_RUN_OVERRIDES"]), environ={})
    assert (known.app, known.grace, known.health, known.database_url) == (("a.b",), 5, None, NOBODY)
    assert (known.queues["default"].processes, known.queues["io"].concurrency) == (2, 50)
    assert "STOKER_EMBEDDED_LOCK_FD" not in environ


def test_run_hands_its_share_of_the_embedded_server_over(
    console: Console, executed: list[tuple[list[str], dict[str, str]]], pg_root: Path
) -> None:
    assert console("run", "--app", "a.b").code == 0
    [(_, environ)] = executed
    lock = int(environ["STOKER_EMBEDDED_LOCK_FD"])
    assert os.get_inheritable(lock)
    assert orjson.loads(environ["STOKER_RUN_OVERRIDES"])["database_url"] == embedded.running_url(pg_root)
    os.close(lock)


def test_run_without_an_application_is_refused(console: Console, executed: list[object]) -> None:
    told = console("run")
    assert told.code == 78
    assert "app: no module is named" in told.err
    assert executed == []


def test_run_needs_linux(console: Console, executed: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    told = console("run", "--app", "a.b")
    assert told.code == 78
    assert told.err.startswith("STOKER_PLATFORM_UNSUPPORTED: ")
    assert executed == []
