"""Finds the SQL that ships with Stoker, in a wheel (stoker/schema) and in a checkout (schema beside stoker)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import LiteralString


@cache
def schema_directory() -> Path:
    """The folder that holds migrations/ and statements/."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "schema", package.parent / "schema"):
        if (candidate / "statements").is_dir():
            return candidate
    raise FileNotFoundError(f"no schema folder in or beside {package}: the installation is incomplete")


@cache
def statement(name: str) -> LiteralString:
    """The text of schema/statements/NAME.sql without its comment lines. Written by us, never by a caller: literal."""
    text = (schema_directory() / "statements" / f"{name}.sql").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines)
