"""Where PostgreSQL's programs are looked for."""

import subprocess
from pathlib import Path

import pytest

from stoker.embedded import binaries
from stoker.embedded.errors import BinariesNotFound, BinariesUnfit, DataOfOtherVersion
from stoker.embedded.paths import Layout


def programs(bin_dir: Path, *, version: str = "18.4") -> Path:
    """A directory that looks like PostgreSQL's."""
    bin_dir.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (bin_dir / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (bin_dir / name).chmod(0o755)
    return bin_dir


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable, no wheel, no pg_config, no system installation."""
    monkeypatch.delenv("STOKER_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(binaries, "_WHEEL", "stoker_no_such_wheel")
    monkeypatch.setattr(binaries, "_SYSTEM", tmp_path / "system")
    return monkeypatch


def test_every_place_in_turn(tmp_path: Path, nothing_installed: pytest.MonkeyPatch) -> None:
    with pytest.raises(BinariesNotFound) as missing:
        binaries.find_binaries()
    assert "stoker[embedded]" in missing.value.fix
    assert "STOKER_PG_BIN" in missing.value.fix

    programs(tmp_path / "system/9.6/bin")
    newest = programs(tmp_path / "system/15/bin")
    (tmp_path / "system/17/bin").mkdir(parents=True)
    assert binaries.find_binaries() == newest

    configured = programs(tmp_path / "configured")
    pg_config = tmp_path / "path/pg_config"
    pg_config.parent.mkdir()
    pg_config.write_text(f"#!/bin/sh\necho {configured}\n")
    pg_config.chmod(0o755)
    assert binaries.find_binaries() == configured

    package = tmp_path / "site/stoker_test_wheel"
    carried = programs(package / "pginstall18/bin")
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    nothing_installed.syspath_prepend(tmp_path / "site")
    nothing_installed.setattr(binaries, "_WHEEL", "stoker_test_wheel")
    assert binaries.find_binaries() == carried

    chosen = programs(tmp_path / "chosen")
    nothing_installed.setenv("STOKER_PG_BIN", str(chosen))
    assert binaries.find_binaries() == chosen


def test_a_wrong_choice_is_an_error_and_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_PG_BIN", str(tmp_path))
    with pytest.raises(BinariesNotFound, match="STOKER_PG_BIN"):
        binaries.find_binaries()


def test_a_failing_pg_config_is_passed_over(tmp_path: Path, nothing_installed: pytest.MonkeyPatch) -> None:
    pg_config = tmp_path / "path/pg_config"
    pg_config.parent.mkdir()
    pg_config.write_text("#!/bin/sh\nexit 1\n")
    pg_config.chmod(0o755)
    with pytest.raises(BinariesNotFound):
        binaries.find_binaries()


def test_versions_sort_as_numbers() -> None:
    found = [Path(f"/usr/lib/postgresql/{name}/bin") for name in ("9.6", "local", "18", "15")]
    assert [path.parent.name for path in binaries.newest_first(found)] == ["18", "15", "9.6", "local"]


def test_programs_that_are_too_old_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BinariesUnfit, match="PostgreSQL 13"):
        binaries.check_version(programs(tmp_path / "bin", version="13.2"), Layout(tmp_path / "root"))


def test_data_of_another_major_version_is_named(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "root")
    layout.data.mkdir(parents=True)
    (layout.data / "PG_VERSION").write_text("15\n")
    with pytest.raises(DataOfOtherVersion, match="made by PostgreSQL 15") as refused:
        binaries.check_version(programs(tmp_path / "bin"), layout)
    assert "STOKER_PG_BIN" in refused.value.fix
    binaries.check_version(programs(tmp_path / "same", version="15.18 (Debian 15.18-0+deb12u1)"), layout)


def test_the_programs_found_here_run() -> None:
    told = subprocess.run([binaries.find_binaries() / "postgres", "--version"], capture_output=True, check=True)
    assert b"PostgreSQL" in told.stdout
