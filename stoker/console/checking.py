"""`stoker check`: would `stoker run` work here?"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import click
import msgspec

from stoker.console import options
from stoker.console.output import complain, explain, say, say_json, say_table
from stoker.errors import DatabaseNotGiven, StokerError
from stoker.settings import Settings, load
from stoker.urls import describe_url


class Report(msgspec.Struct):
    """What was found; `errors` keep `stoker run` from working here, `warnings` may be meant so."""

    app: list[str] = []
    jobs: list[dict[str, str]] = []
    preload: list[str] = []
    queues: list[str] = []
    database: dict[str, Any] = {}
    warnings: list[str] = []
    errors: list[StokerError] = []

    @property
    def exit_code(self) -> int:
        return max((error.exit_code for error in self.errors), default=0)


@click.command()
@options.apps
@options.queues
@options.as_json
@options.database_url
@options.config
def check(
    app: tuple[str, ...], queue: tuple[str, ...], as_json: bool, database_url: str | None, config: str | None
) -> None:
    """Check the settings, the application, its queues and the database. Every fault is told.

    The application is imported and its preload hooks are run, as `stoker run` would.
    """
    report = Report()
    try:
        known = load({"app": app or None, "queues": queue, "database_url": database_url, "config": config})
        _look_at_application(known, report)
        _look_at_database(known, report)
    except StokerError as error:
        report.errors.append(error)
    _tell_json(report) if as_json else _tell(report)
    sys.exit(report.exit_code)


def _look_at_application(known: Settings, report: Report) -> None:
    from stoker.console.application import load_application
    from stoker.registry import place

    report.app, report.queues = list(known.app), sorted(known.queues)
    if not known.app:
        report.warnings.append("app: no module is named that declares jobs; `stoker run` needs one")
    try:
        registry = load_application(known.app, preload=True)
    except StokerError as error:
        report.errors.append(error)
        return
    report.preload = [place(hook) for hook in registry.preload]
    report.jobs = [{"name": name, "queue": registry.jobs[name].queue} for name in registry.names()]
    for job in report.jobs:
        if job["queue"] not in known.queues:
            report.warnings.append(
                f"queues: nobody here serves {job['queue']}, where job {job['name']} goes; "
                f"add [queues.{job['queue']}] or serve it elsewhere"
            )


def _look_at_database(known: Settings, report: Report) -> None:
    from stoker.console.place import connected
    from stoker.errors import SchemaTooOld
    from stoker.migrate import check as check_version
    from stoker.migrate import code_version, schema_version

    url = known.database_url
    report.database = {"embedded": url is None, "code_version": code_version()}
    if url is None:
        report.database["place"], url = _embedded_server(report)
    else:
        report.database["place"] = describe_url(url)
    if url is None:
        return
    try:
        with connected(url) as conn:
            report.database["schema_version"] = schema_version(conn).version
            with suppress(SchemaTooOld):  # The keeper migrates at start.
                check_version(conn)
    except StokerError as error:
        report.errors.append(error)


def _embedded_server(report: Report) -> tuple[str | None, str | None]:
    try:
        from stoker.embedded import running_url
        from stoker.embedded.paths import Layout
    except ImportError:  # There is none on this platform.
        report.errors.append(DatabaseNotGiven())
        return None, None
    return str(Layout.of(None).root), running_url()


def _tell_json(report: Report) -> None:
    errors = [{"code": error.code, "cause": error.cause.rstrip(), "fix": error.fix} for error in report.errors]
    say_json({"ok": not errors, **msgspec.structs.asdict(report), "errors": errors})


def _tell(report: Report) -> None:
    if report.jobs:
        say_table(("JOB", "QUEUE"), [(job["name"], job["queue"]) for job in report.jobs])
    for hook in report.preload:
        say(f"preloaded: {hook}")
    if report.database:
        say(_database_line(report.database))
    for warning in report.warnings:
        complain(f"warning: {warning}")
    for error in report.errors:
        explain(error)
    if not report.errors:
        say("ok")


def _database_line(database: dict[str, Any]) -> str:
    version, ours = database.get("schema_version"), database["code_version"]
    where = f"{'embedded ' * database['embedded']}PostgreSQL at {database['place']}"
    if version is None:
        return f"database: {where}, {'not running; `stoker run` starts it' if database['embedded'] else 'no answer'}"
    behind = f"; `stoker run` and `stoker migrate` bring it to {ours}" if version < ours else ""
    return f"database: {where}, schema {version or 'missing'}{behind}"
