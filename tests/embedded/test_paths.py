"""Which directory is the root, and the names inside."""

import os
from pathlib import Path

import pytest

from stoker.embedded.paths import LONGEST_SOCKET_DIR, Layout, default_root


def test_the_default_root_depends_on_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_PG_ROOT", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_root() == Path(".stoker")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_root() == Path("/var/lib/stoker")
    monkeypatch.setenv("STOKER_PG_ROOT", "/elsewhere")
    assert default_root() == Path("/elsewhere")


def test_two_names_of_one_directory_are_one_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").symlink_to(tmp_path / "root")
    monkeypatch.chdir(tmp_path)
    assert Layout.of(tmp_path / "other") == Layout.of(Path("root")) == Layout.of(tmp_path / "other/../root")


def test_the_socket_directory_is_inside_unless_its_name_is_unfit() -> None:
    short, long, comma = Path("/srv/stoker"), Path("/srv") / ("x" * LONGEST_SOCKET_DIR), Path("/srv/a,b")
    assert Layout(short).socket_dir == short / "run"
    for root in (long, comma):
        assert Layout(root).socket_dir.parent == Path("/tmp")
    assert Layout(long).socket_dir != Layout(comma).socket_dir
