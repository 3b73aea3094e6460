"""Our package and PyPI's `supervisor` share a folder: no file of ours may be one of theirs."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

import supervisor
from tests.support import FULL_SCALE

ROOT = Path(supervisor.__file__).parents[1]
_LISTED = """
childutils compat confecho datatypes dispatchers events http http_client loggers medusa options pidproxy poller process
rpcinterface socket_manager states supervisorctl supervisord templating web xmlrpc
"""
THEIRS = frozenset(_LISTED.split())


def test_no_module_has_one_of_their_names() -> None:
    ours = {path.stem for path in (ROOT / "supervisor").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not ours & THEIRS
    assert not ours & {"version", "tests", "ui", "scripts", "skel", "fsutils"}


def test_the_package_file_is_empty_like_theirs() -> None:
    assert (ROOT / "supervisor" / "__init__.py").read_bytes() == b""


@pytest.mark.skipif(not FULL_SCALE, reason="installs a package from the network; STOKER_TEST_SCALE=full")
@pytest.mark.parametrize("ours_first", [True, False])
def test_both_work_installed_together(tmp_path: Path, ours_first: bool) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")

    def pip(*words: str) -> None:
        subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)

    def works(*modules: str) -> None:
        for module in modules:
            subprocess.run([python, "-c", f"import {module}"], check=True, cwd=tmp_path)

    for name in (str(ROOT), "supervisor") if ours_first else ("supervisor", str(ROOT)):
        pip("install", name)
    works("supervisor.supervisord", "supervisor.loop", "supervisor.fork_server")
    pip("uninstall", "--yes", "supervisor")
    works("supervisor.loop", "supervisor.fork_server")
    assert sys.version_info[:2] >= (3, 11)
