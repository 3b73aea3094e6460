"""The three sources of settings: a TOML file, the environment, and the flags of a command."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.settings.draft import Draft, nearest
from stoker.settings.fields import RETENTION, SCALARS

_PREFIX = "STOKER_"
_NOT_SETTINGS = re.compile(
    r"STOKER_(PG_BIN|PG_ROOT|PG_OPTIONS|CONFIG|TEST_SCALE"
    # Kubernetes gives every pod these for a Service that is named "stoker".
    r"|SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_[0-9]+_.*)"
)
_VARIABLES = {f"{_PREFIX}{key.upper()}": key for key in SCALARS} | {
    f"{_PREFIX}RETENTION_{key.upper()}": f"retention.{key}" for key in RETENTION
}
_QUEUES = f"{_PREFIX}QUEUES"


def take_file(draft: Draft, directory: Path, chosen: str | None) -> None:
    """Read the chosen file, or `stoker.toml`, or `[tool.stoker]` of `pyproject.toml` in a directory."""
    paths = [directory / chosen] if chosen else [directory / "stoker.toml", directory / "pyproject.toml"]
    for path in paths:
        source = chosen or path.name
        try:
            tree = _toml(draft, path, source)
        except FileNotFoundError:
            if chosen:
                draft.mistake(source, "", "this file does not exist")
            continue
        if path.name == "pyproject.toml":
            tree = _tool_table(draft, source, tree)
        draft.take(source, tree)
        return


def take_environment(draft: Draft, environ: Mapping[str, str]) -> None:
    """Read every `STOKER_*` variable; an empty one counts as unset."""
    for variable, text in sorted(environ.items()):
        if not variable.startswith(_PREFIX) or _NOT_SETTINGS.fullmatch(variable) or not text.strip():
            continue
        if variable == _QUEUES:
            _take_queue_flags(draft, variable, text.split(","))
        elif key := _VARIABLES.get(variable):
            table, _, name = key.rpartition(".")
            draft.take(variable, {table: {name: text}} if table else {name: text})
        else:
            draft.mistake(variable, "", f"unknown variable{nearest_variable(variable)}")


def take_flags(draft: Draft, overrides: Mapping[str, Any]) -> None:
    """Read the flags of a command; None means that a flag was not given."""
    for key, value in overrides.items():
        if key == "queues" and isinstance(value, str | list | tuple):
            flags = value.split(",") if isinstance(value, str) else list(value)
            if flags:
                _take_queue_flags(draft, "--queue", [str(flag) for flag in flags])
        elif value is not None and key != "config":
            draft.take("--" + key.replace("_", "-"), {key: value})


def parse_queue_flag(text: str) -> tuple[str, dict[str, int]]:
    """Read `NAME`, `NAME=PROCESSES` or `NAME=PROCESSESxCONCURRENCY`, for example `io=1x50`; else a ValueError."""
    name, equals, numbers = text.strip().partition("=")
    match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", numbers.strip(), re.IGNORECASE)
    if not name.strip() or (equals and not match):
        raise ValueError(f'expected NAME=PROCESSES or NAME=PROCESSESxCONCURRENCY such as io=1x50, got "{text.strip()}"')
    given = {"processes": match[1], "concurrency": match[2]} if match else {}
    return name.strip(), {key: int(number) for key, number in given.items() if number}


def nearest_variable(variable: str) -> str:
    """Suggest the variable a misspelt one was probably meant to be."""
    by_lower = {name.lower(): name for name in (*_VARIABLES, _QUEUES)}
    near = nearest(variable, tuple(by_lower))
    return re.sub(r"stoker_\w+", lambda match: by_lower[match[0]], near)


def _take_queue_flags(draft: Draft, source: str, flags: list[str]) -> None:
    tables: dict[str, dict[str, int]] = {}
    for text in flags:
        try:
            name, given = parse_queue_flag(text)
        except ValueError as error:
            draft.mistake(source, "queues", str(error))
            continue
        if name in tables:
            draft.mistake(source, f"queues.{name}", "this queue is given twice")
        tables[name] = given
    if tables:
        draft.take_queues(source, tables)


def _toml(draft: Draft, path: Path, source: str) -> dict[str, Any]:
    text = ""
    try:
        text = path.read_bytes().decode()
        return tomllib.loads(text)
    except FileNotFoundError:
        raise
    except OSError as error:
        draft.mistake(source, "", f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        draft.mistake(source, "", f"is not UTF-8 text: byte {error.start}")
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error)) or [0, text.count("\n") + 1]
        what = re.sub(r"\s*\(at [^)]*\)$", "", str(error))
        draft.mistake(source, f"line {line[1]}", f"is not TOML: {what}")
    except RecursionError:
        draft.mistake(source, "", "is nested too deeply")
    return {}


def _tool_table(draft: Draft, source: str, tree: dict[str, Any]) -> dict[str, Any]:
    tool = tree.get("tool", {})
    table = tool.get("stoker", {}) if isinstance(tool, dict) else {}
    if isinstance(table, dict):
        return table
    draft.mistake(source, "tool.stoker", "expected a table")
    return {}
