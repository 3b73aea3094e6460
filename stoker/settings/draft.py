"""The draft of the settings: reads every source's values, remembers where each came from, collects every mistake."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from stoker.errors import DriverNotImplemented, Problem
from stoker.settings.fields import QUEUE, RETENTION, SCALARS, TABLES
from stoker.settings.readers import Reader, shown
from stoker.urls import redact_url

QUEUE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")


class Draft:
    """Takes sources from the weakest to the strongest; a later value replaces an earlier one of the same key."""

    def __init__(self) -> None:
        self.scalars: dict[str, Any] = {}
        self.retention: dict[str, float] = {}
        self.queues: dict[str, dict[str, Any]] | None = None
        self.origins: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.unsupported: DriverNotImplemented | None = None

    def take(self, source: str, tree: Mapping[str, Any]) -> None:
        """Read a whole tree of settings, as a TOML file holds it."""
        known = {key: value for key, value in tree.items() if key not in TABLES}
        self.scalars |= self._read(source, "", known, SCALARS, siblings=(*SCALARS, *TABLES))
        if (table := self._table(source, "retention", tree.get("retention", {}))) is not None:
            self.retention |= self._read(source, "retention.", table, RETENTION)
        if "queues" in tree and (table := self._table(source, "queues", tree["queues"])) is not None:
            self.take_queues(source, table)

    def take_queues(self, source: str, tables: Mapping[str, Any]) -> None:
        """Let these queues, and no others, run; what a weaker source says about one of them still holds."""
        known = self.queues or {}
        self.queues = {}
        if not tables:
            self.mistake(source, "queues", "expected at least one queue")
        for name, raw in tables.items():
            key = f"queues.{name}"
            if not QUEUE_NAME.fullmatch(name):
                self.mistake(source, key, "expected a queue name of 1 to 63 letters, digits, _ . or -")
            if (table := self._table(source, key, raw)) is not None:
                self.queues[name] = known.get(name, {}) | self._read(source, f"{key}.", table, QUEUE)

    def mistake(self, source: str, key: str, message: str) -> None:
        """Note one mistake."""
        self.problems.append(Problem(source, key, redact_url(message)))

    def _table(self, source: str, key: str, raw: object) -> Mapping[str, Any] | None:
        if isinstance(raw, Mapping):
            return raw
        self.mistake(source, key, f"expected a table, got {shown(raw)}")
        return None

    def _read(
        self,
        source: str,
        prefix: str,
        table: Mapping[str, Any],
        readers: Mapping[str, Reader],
        siblings: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        values = {}
        for name, raw in table.items():
            try:
                values[name] = readers[name](raw)
                self.origins[prefix + name] = source
            except KeyError:
                self.mistake(source, prefix + name, f"unknown setting{nearest(name, siblings or tuple(readers))}")
            except ValueError as error:
                self.mistake(source, prefix + name, str(error))
            except DriverNotImplemented as error:
                self.unsupported = error
                self.mistake(source, prefix + name, str(error))
        return values


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Suggest the known name a misspelt one was probably meant to be."""
    near = get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
