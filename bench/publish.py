"""Writes a result into the page: the table, the machine, the plots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchFailed
from bench.plots import plots
from bench.processes import ROOT
from bench.report import HEAD, row
from bench.workloads import WORKLOADS

PAGE: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- measured: written by `python -m bench --publish` -->"
END: Final = "<!-- /measured -->"
SCALES: Final = {"full": "make bench", "quick": ".venv/bin/python -m bench --quick"}


def publish(results: Path, page: Path = PAGE) -> Path:
    """Replace what the page says was measured by the newest complete result. Raises BenchFailed without one."""
    document = newest(results)
    text = page.read_text()
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise BenchFailed(f"{page} has no lines {BEGIN!r} and {END!r}")
    charts = page.parent / page.stem
    charts.mkdir(exist_ok=True)
    for name, chart in plots(document).items():
        (charts / f"{name}.svg").write_text(chart.svg())
    page.write_text(f"{before}{BEGIN}\n\n{measured(document)}\n{END}{after}")
    return page


def newest(results: Path) -> dict[str, Any]:
    """The newest result in which every workload was measured, at a scale that means something."""
    for path in sorted(results.glob("*.json"), reverse=True):
        document: dict[str, Any] = json.loads(path.read_text())
        if document.get("workloads") == list(WORKLOADS) and not document["failed"] and document["scale"] in SCALES:
            return document
    raise BenchFailed(f"no file in {results} has every workload of a whole run; `make bench` makes one")


def measured(document: dict[str, Any]) -> str:
    """Markdown: how and on what, the table, the plots."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(row(reading) for reading in document["readings"])]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    charts = "\n\n".join(f"![{chart.title}](performance/{name}.svg)" for name, chart in plots(document).items())
    return f"{_circumstances(document)}\n\n{table}\n\n{charts}\n"


def _circumstances(document: dict[str, Any]) -> str:
    machine = document["machine"]
    settings = ", ".join(f"`{name}` {value}" for name, value in machine["postgresql_settings"].items())
    host = (
        f"{machine['cpus']} processors ({machine['cpu']}), {machine['memory_mb'] / 1024:.0f} GB, "
        f"{machine['file_system']}, Linux {machine['kernel']}"
    )
    software = f"Python {machine['python']}, psycopg {machine['psycopg']}, PostgreSQL {machine['postgresql']}"
    run = f"`{SCALES[document['scale']]}` in {document['took_s'] / 60:.0f} min at commit `{machine['commit']}`"
    return (
        f"Measured {document['at'][:10]} by {run} on {host}; {software} on the same machine with {settings}. "
        f"Load before: {machine['load_before']:.1f}."
    )
