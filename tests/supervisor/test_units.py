"""The shipped units: accepted by systemd, and in agreement with what the supervisor promises."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.durations import parse_duration
from stoker.errors import CONFIG, KILLED
from stoker.settings import Settings, load

UNITS = Path(__file__).parents[2] / "systemd"
NAMES = ("stoker.service", "stoker@.service")


def options(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_systemd_accepts_it(name: str, tmp_path: Path) -> None:
    # The program must exist for `verify`; where it is installed here is not where the unit expects it.
    unit = tmp_path / name.replace("@", "@mail")
    unit.write_text((UNITS / name).read_text().replace("/opt/stoker/.venv/bin/stoker", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_it_agrees_with_the_supervisor(name: str) -> None:
    unit = options(name)
    assert unit["Type"] == ["notify"]
    assert unit["KillMode"] == ["mixed"]
    assert unit["OOMPolicy"] == ["continue"]
    assert float(unit["TimeoutStopSec"][0]) > Settings().grace + 2
    assert unit["SuccessExitStatus"] == [str(KILLED)]
    assert unit["RestartPreventExitStatus"] == [str(CONFIG)]
    assert unit["Restart"] == ["on-failure"]
    assert float(unit["WatchdogSec"][0]) > 0
    assert "-HUP $MAINPID" in unit["ExecReload"][0]


def test_an_instance_has_its_own_queue_port_and_runtime_directory() -> None:
    unit = options("stoker@.service")
    assert unit["ExecStart"] == ["/opt/stoker/.venv/bin/stoker run --queue %i=${PROCESSES}"]
    assert unit["EnvironmentFile"][-1] == "/etc/stoker/%i.env", "without one the port would be everybody's"
    assert unit["RuntimeDirectory"] == ["stoker-%i"]


def test_the_example_environment_holds_settings() -> None:
    lines = (UNITS / "stoker.env.example").read_text().splitlines()
    pairs = (line.removeprefix("# ").split(maxsplit=1)[0] for line in lines if line.removeprefix("# ")[:7] == "STOKER_")
    environ = dict(pair.split("=", 1) for pair in pairs)
    settings = load(environ=environ, directory=UNITS)
    assert settings.app == ("shop.jobs",)
    assert settings.grace == parse_duration("25s")
