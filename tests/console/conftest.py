"""Runs commands in this process, apart from the machine's own settings."""

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from stoker import registry
from stoker.console import main
from stoker.registry import Registry


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.out)


Console = Callable[..., Outcome]


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Console]:
    """Runs `stoker …` in an empty directory, without any settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOKER_PG_ROOT", str(tmp_path / "no-server"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    loaded = set(sys.modules)

    def run(*args: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["stoker", *map(str, args)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), told.out, told.err)

    with registry.use(Registry()):
        yield run
    for name in set(sys.modules) - loaded:
        if getattr(sys.modules[name], "__file__", None) and str(sys.modules[name].__file__).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def on_database(console: Console, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Console:
    """The same, on the test database."""
    monkeypatch.setenv("STOKER_DATABASE_URL", database_url)
    return console


@pytest.fixture
def write_app(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a module into the working directory of the console and returns its name."""

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write
