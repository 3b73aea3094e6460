"""Plans as PostgreSQL makes, keeps and executes them for prepared statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from psycopg import Connection, sql

from stoker.sql import statement

_PARAMETER = re.compile(r"%\((\w+)\)s")
_TYPES = {bool: "boolean", int: "bigint", float: "float8"}


@dataclass(frozen=True)
class Plan:
    """An executed plan."""

    root: dict[str, Any]

    @property
    def buffers(self) -> int:
        """Pages touched, in memory or not."""
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    def nodes(self, relation: str) -> list[dict[str, Any]]:
        """Every node that reads this table."""
        return [node for node in _walk(self.root) if node.get("Relation Name") == relation]

    def indexes(self, relation: str) -> set[str]:
        return {node["Index Name"] for node in self.nodes(relation) if "Index Name" in node}

    @property
    def rows_read(self) -> int:
        """Index entries of jobs looked at, those a filter removed included."""
        return int(
            sum(
                (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
                for node in self.nodes("jobs")
                if node["Node Type"] != "ModifyTable"
            )
        )


def explain(conn: Connection[Any], name: str, params: dict[str, Any], *, keep: bool = False) -> Plan:
    """Execute one of our statements as a prepared one of this session and return its plan; undone unless `keep`."""
    text = statement(name)
    order = list(dict.fromkeys(_PARAMETER.findall(text)))
    if conn.execute("select from pg_prepared_statements where name = %s", (name,)).fetchone() is None:
        numbered = _PARAMETER.sub(lambda found: f"${order.index(found[1]) + 1}", text).replace("%%", "%")
        types = ", ".join(_TYPES.get(type(params[key]), "unknown") for key in order)
        conn.execute(cast(Any, f"prepare {name}{f'({types})' if types else ''} as {numbered}"))
    values = sql.SQL(", ").join(sql.Literal(params[key]) for key in order)
    call = sql.SQL("{}({})" if order else "{}").format(sql.Identifier(name), values)
    with conn.transaction(force_rollback=not keep):
        row = conn.execute(sql.SQL("explain (analyze, buffers, format json) execute ") + call).fetchone()
    assert row
    return Plan(row[0][0]["Plan"])


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _walk(child)
