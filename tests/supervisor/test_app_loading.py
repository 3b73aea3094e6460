"""Importing the application in the fork server: what is refused, and how it is said."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOADER = """
import json, sys
from stoker.application import describe
from stoker.errors import StokerError
from supervisor.app_loading import load_app
try:
    print(json.dumps(load_app(sys.argv[1:])))
except StokerError as error:
    print(json.dumps(describe(error)))
"""

SOUND = """
from stoker import job

@job
def zebra(payload, ctx): ...

@job
def ant(payload, ctx): ...
"""


@pytest.fixture
def load(tmp_path: Path):  # type: ignore[no-untyped-def]
    def run(source: str, module: str = "app") -> list[str] | str:
        (tmp_path / "app.py").write_text(source)
        command = [sys.executable, "-c", LOADER, module]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]

    return run


def test_the_names_are_sorted(load) -> None:  # type: ignore[no-untyped-def]
    assert load(SOUND) == ["ant", "zebra"]


PRELOADING = """
import gc
from stoker import job, preload

TABLE = []

@preload
def fill():
    assert gc.get_freeze_count() == 0, "what it makes would not be frozen"
    TABLE.extend([number] for number in range(100_000))

@job
def zebra(payload, ctx): ...

print(TABLE)
"""
FROZEN = f"""{LOADER}
import app, gc
print(len(app.TABLE), gc.get_freeze_count() > 100_000)
"""


def test_preload_hooks_run_after_the_import_and_before_everything_is_frozen(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PRELOADING)
    command = [sys.executable, "-c", FROZEN, "app"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", '["zebra"]', "100000 True"]


def test_a_failing_preload_hook_is_told_like_a_failing_import(load) -> None:  # type: ignore[no-untyped-def]
    first, *where = load("from stoker import preload\n@preload\ndef fill():\n    return 1 / 0\n").splitlines()
    assert "The preload hook app.fill (" in first
    assert "failed: ZeroDivisionError: division by zero. Fix:" in first
    assert any("app.py" in line and "line 4, in fill" in line for line in where)


@pytest.mark.parametrize("error", ["asyncio.CancelledError()", "BaseExceptionGroup('both', [SystemExit(1)])"])
def test_whatever_is_raised_is_told(load, error: str) -> None:  # type: ignore[no-untyped-def]
    kind = error.partition("(")[0].rpartition(".")[2]
    assert kind in load(f"import asyncio\nraise {error}").splitlines()[0]
    hook = f"import asyncio\nfrom stoker import preload\n@preload\ndef fill():\n    raise {error}\n"
    assert kind in load(hook).splitlines()[0]


def test_an_error_names_module_cause_and_place(load) -> None:  # type: ignore[no-untyped-def]
    first, *where = load("def setup():\n    return 1 / 0\n\nsetup()\n").splitlines()
    assert "'app' cannot be imported: ZeroDivisionError: division by zero" in first
    assert "Fix:" in first
    assert any("app.py" in line and "line 2" in line for line in where)
    assert not any("importlib" in line for line in where)


def test_a_module_that_is_not_there(load) -> None:  # type: ignore[no-untyped-def]
    assert "No module named 'nowhere'" in load(SOUND, "nowhere")


def test_a_syntax_error_has_its_line(load) -> None:  # type: ignore[no-untyped-def]
    assert "line 2" in load("x = 1\ndef f(:\n").splitlines()[0]


def test_a_module_that_exits(load) -> None:  # type: ignore[no-untyped-def]
    assert "SystemExit" in load("raise SystemExit(3)")


def test_threads_are_refused_by_name(load) -> None:  # type: ignore[no-untyped-def]
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), name='pump', daemon=True).start()"
    said = load(source)
    assert "starts threads (pump)" in said
    assert "@on_start" in said
