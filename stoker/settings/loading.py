"""Loads the settings from all sources and reports every mistake at once."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.errors import Problem, SettingsInvalid
from stoker.settings.checks import conflicts
from stoker.settings.draft import Draft
from stoker.settings.machine import runtime_directories, usable_directory
from stoker.settings.model import QueueSettings, RetentionSettings, Settings
from stoker.settings.readers import check_conninfo
from stoker.settings.sources import take_environment, take_file, take_flags


def load(
    overrides: Mapping[str, Any] | None = None,
    *,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    read_again: bool = False,
) -> Settings:
    """Read `stoker.toml` (or `[tool.stoker]`), then `STOKER_*`, then flags; the later source wins.

    `overrides` are flags by setting name; None means not given; `config` names another file than `stoker.toml`.
    `queues` is a table or a list of `NAME=PROCESSES[xCONCURRENCY]`; the strongest source chooses which queues run.
    `read_again`: they are read once more before a URL is used, so that nothing is lost by not asking libpq now.
    Raises SettingsInvalid with every mistake of every source, or DriverNotImplemented if that is the only one.
    """
    flags, variables = overrides or {}, os.environ if environ is None else environ
    draft = Draft()
    chosen = flags.get("config") or variables.get("STOKER_CONFIG")
    take_file(draft, directory or Path.cwd(), str(chosen) if chosen else None)
    take_environment(draft, variables)
    take_flags(draft, flags)
    settings = _assemble(draft)
    _note_conflicts(draft, settings)
    # Importing libpq takes longer than all the rest of this; but whoever is told of mistakes is told of all.
    if draft.problems or not read_again:
        _note_bad_urls(draft)
    if draft.unsupported and len(draft.problems) == 1:
        raise draft.unsupported
    if draft.problems:
        raise SettingsInvalid(problems=draft.problems)
    return settings


def resolve_runtime_dir(settings: Settings) -> Path:
    """Return the directory of the host lock files, created if need be: `runtime_dir`, or the first default of ours.

    The defaults are `/run/stoker` for root, `$XDG_RUNTIME_DIR/stoker`, `<temporary directory>/stoker-<uid>`.
    Raises SettingsInvalid when it cannot be created, or belongs to somebody else.
    """
    candidates = [Path(settings.runtime_dir)] if settings.runtime_dir else runtime_directories()
    try:
        return usable_directory(candidates)
    except OSError as error:
        problem = Problem("", "runtime_dir", f"no directory for lock files: {error}")
        raise SettingsInvalid(problems=[problem]) from error


def _assemble(draft: Draft) -> Settings:
    facts = dict(draft.scalars)
    if draft.queues:
        facts["queues"] = {name: QueueSettings(**given) for name, given in draft.queues.items()}
    return Settings(**facts, retention=RetentionSettings(**draft.retention))


def _note_bad_urls(draft: Draft) -> None:
    for key in ("database_url", "direct_database_url"):
        try:
            if url := draft.scalars.get(key):
                check_conninfo(url)
        except ValueError as error:
            draft.mistake(draft.origins[key], key, str(error))


def _note_conflicts(draft: Draft, settings: Settings) -> None:
    wrong = {problem.key for problem in draft.problems}
    for keys, message in conflicts(settings):
        if wrong.isdisjoint(keys):
            source = next((draft.origins[key] for key in keys if key in draft.origins), "defaults")
            draft.mistake(source, keys[0], message)
