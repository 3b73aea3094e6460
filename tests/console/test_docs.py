"""The documentation says what is true: its first example runs, its links lead somewhere, its commands exist."""

import re
from pathlib import Path
from typing import Any

import pytest

from stoker import client, registry, testing
from stoker.registry import Registry
from tests.console.conftest import Console

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_application_of_the_readme_runs() -> None:
    [app] = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {"__name__": "shop"}
    with registry.use(Registry()) as declared, testing.memory():
        exec(compile(app, "shop.py", "exec"), names)
        job_id = names["render"].enqueue({"id": 7, "pages": 3})
        assert names["render"].enqueue({"id": 7, "pages": 3}) == job_id
        [ran] = testing.run_jobs()
        assert ran.outcome == "completed"
        assert client.result(job_id) == {"pages": 3}
        assert declared.jobs["render"].queue == "reports"
    assert len(app.splitlines()) <= 22


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_commands_that_are_named_exist(console: Console) -> None:
    told = "\n".join(page.read_text() for page in PAGES if page.name != "design.md")
    groups = {"jobs", "queues", "pg"}
    named = set(re.findall(r"(?:`|\n|/)stoker ((?:jobs |queues |pg )?[a-z]+)", told))
    assert len(named) >= 9
    for command in sorted(named - groups):
        assert console(*command.split(), "--help").code == 0, command


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text())) <= targets | {"it"}
