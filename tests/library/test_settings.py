"""Settings come from a file, the environment and flags, the later wins, and every mistake is told at once."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import settings
from stoker.errors import CONFIG, DriverNotImplemented, SettingsInvalid
from stoker.settings import QueueSettings, RetentionSettings, Settings, cgroups, load, machine
from stoker.settings.fields import QUEUE, RETENTION, SCALARS


def load_from(
    directory: Path, toml: str = "", env: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Load settings from texts, apart from the real environment."""
    if toml:
        (directory / "stoker.toml").write_text(toml)
    return load(flags, directory=directory, environ=env or {})


def mistakes(
    directory: Path, toml: str = "", env: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> list[str]:
    """Load settings that must be refused and return the lines of the refusal."""
    with pytest.raises(SettingsInvalid) as refused:
        load_from(directory, toml, env, flags)
    assert refused.value.exit_code == CONFIG
    lines = [str(problem) for problem in refused.value.problems]
    assert all(line in str(refused.value) for line in lines)
    return lines


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    found = load_from(tmp_path)
    assert found == Settings()
    assert found.grace == 25
    assert found.health == ("127.0.0.1", 8585)
    assert found.queues == {"default": QueueSettings(processes=settings.default_processes(), concurrency=1)}
    assert found.retention == RetentionSettings(done=86_400, dead=30 * 86_400, cancelled=7 * 86_400)
    assert (found.lease, found.max_payload, found.max_result) == (30, 2**20, 2**16)


def test_a_file_sets_everything(tmp_path: Path) -> None:
    found = load_from(
        tmp_path,
        """
        app = ["shop.jobs", "shop.mail"]
        database_url = "postgresql://app@db/shop"
        direct_database_url = "host=db port=6432 dbname=shop"
        grace = "1m30s"
        health = "[::1]:0"
        lease = 20
        renew_every = 0.5
        max_payload = "64KiB"
        max_result = 100
        notify = false
        log_format = "json"
        runtime_dir = "/run/shop"
        [queues.io]
        processes = 1
        concurrency = 50
        max_rss = "512MB"
        max_age = "1d"
        kill_rss = "1GB"
        max_jobs = 1000
        jitter = 0.2
        [queues."mail.high"]
        [retention]
        done = "0s"
        dead = "7d"
        """,
    )
    assert found.app == ("shop.jobs", "shop.mail")
    assert found.direct_database_url == "host=db port=6432 dbname=shop"
    assert (found.grace, found.health, found.lease, found.renew_every) == (90, ("::1", 0), 20, 0.5)
    assert (found.max_payload, found.max_result, found.notify) == (65536, 100, False)
    assert found.queues == {
        "io": QueueSettings(
            processes=1,
            concurrency=50,
            max_rss=512_000_000,
            max_jobs=1000,
            jitter=0.2,
            max_age=86_400.0,
            kill_rss=1_000_000_000,
        ),
        "mail.high": QueueSettings(),
    }
    assert found.retention == RetentionSettings(done=0, dead=7 * 86_400)


def test_pyproject_holds_settings_too_and_stoker_toml_goes_before_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\n[tool.stoker]\ngrace = "3s"\nlease = "9s"\n')
    assert load_from(tmp_path).grace == 3
    found = load_from(tmp_path, 'grace = "4s"')
    assert (found.grace, found.lease) == (4, 30)


@pytest.mark.parametrize("text", ["", "[tool]", "[tool.ruff]\nline-length = 1", "tool = 3"])
def test_a_pyproject_without_our_table_is_fine(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert load_from(tmp_path) == Settings()


def test_environment_overrides_file_and_flags_override_environment(tmp_path: Path) -> None:
    toml = 'grace = "1s"\nlease = "21s"\nbatch = 1\n[retention]\ndone = "1h"\ndead = "1h"'
    env = {"STOKER_GRACE": "2s", "STOKER_LEASE": "22", "STOKER_RETENTION_DONE": "2h", "STOKER_BATCH": ""}
    found = load_from(tmp_path, toml, env, {"grace": "3s", "lease": None})
    assert (found.grace, found.lease, found.batch) == (3, 22, 1)
    assert (found.retention.done, found.retention.dead) == (7200, 3600)


def test_every_key_has_a_variable(tmp_path: Path) -> None:
    env = {
        "STOKER_APP": "shop.jobs, shop.mail",
        "STOKER_DATABASE_URL": "postgresql://app@db/shop",
        "STOKER_HEALTH": "off",
        "STOKER_NOTIFY": "no",
        "STOKER_REQUIRE_TENANT": "1",
        "STOKER_QUEUES": "default=2,io=1x50",
        "STOKER_RETENTION_CANCELLED": "0",
        "STOKER_MAX_PAYLOAD": "2MiB",
    }
    found = load_from(tmp_path, env=env)
    assert found.app == ("shop.jobs", "shop.mail")
    assert (found.health, found.notify, found.require_tenant) == (None, False, True)
    assert found.queues == {"default": QueueSettings(processes=2), "io": QueueSettings(processes=1, concurrency=50)}
    assert (found.retention.cancelled, found.max_payload) == (0, 2 * 2**20)


def test_fields_and_readers_name_the_same_keys() -> None:
    assert {*SCALARS, "queues", "retention"} == set(Settings.__struct_fields__)
    assert set(QUEUE) == set(QueueSettings.__struct_fields__)
    assert set(RETENTION) == set(RetentionSettings.__struct_fields__)


def test_every_key_is_in_the_reference() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    for key in (*SCALARS, *QUEUE, *(f"retention.{state}" for state in RETENTION)):
        assert f"`{key}`" in reference, key


def test_variables_that_are_no_settings_are_ignored(tmp_path: Path) -> None:
    names = (
        "PG_BIN",
        "PG_ROOT",
        "TEST_SCALE",
        "PG_OPTIONS",
        "SERVICE_HOST",
        "SERVICE_PORT_HTTP",
        "PORT",
        "PORT_80_TCP",
    )
    assert load_from(tmp_path, env={f"STOKER_{name}": "tcp://10.0.0.1:80" for name in names}) == Settings()


def test_a_queue_flag_chooses_the_queue_and_the_file_still_describes_it(tmp_path: Path) -> None:
    toml = "[queues.io]\nconcurrency = 50\nmax_jobs = 9\n[queues.mail]\nprocesses = 3"
    assert load_from(tmp_path, toml, flags={"queues": ["io=2"]}).queues == {
        "io": QueueSettings(processes=2, concurrency=50, max_jobs=9)
    }
    assert load_from(tmp_path, flags={"queues": ["mail"]}).queues == {"mail": QueueSettings(processes=3)}
    assert set(load_from(tmp_path, env={"STOKER_QUEUES": "io,mail=1x2"}).queues) == {"io", "mail"}
    assert set(load_from(tmp_path, flags={"queues": []}).queues) == {"io", "mail"}


def test_queue_flags() -> None:
    assert settings.parse_queue_flag("io=1x50") == ("io", {"processes": 1, "concurrency": 50})
    assert settings.parse_queue_flag(" io=3 ") == ("io", {"processes": 3})
    assert settings.parse_queue_flag("io") == ("io", {})
    for text in ("", "=1", "io=", "io=x", "io=1x", "io=-1", "io=1x2x3", "io=one"):
        with pytest.raises(ValueError, match="such as io=1x50"):
            settings.parse_queue_flag(text)


def test_config_names_another_file(tmp_path: Path) -> None:
    (tmp_path / "stoker.toml").write_text('grace = "1s"')
    (tmp_path / "other.toml").write_text('grace = "2s"')
    (tmp_path / "third.toml").write_text('grace = "3s"')
    env = {"STOKER_CONFIG": "other.toml"}
    assert load_from(tmp_path, env=env).grace == 2
    assert load_from(tmp_path, env=env, flags={"config": tmp_path / "third.toml"}).grace == 3
    assert mistakes(tmp_path, env={"STOKER_CONFIG": "none.toml"}) == ["none.toml: this file does not exist"]


def test_ten_mistakes_of_a_file_are_ten_lines(tmp_path: Path) -> None:
    toml = """
        app = ["not a module"]
        database_url = "mysql://app:s3cret@db/shop"
        grace = "soon"
        health = "8585"
        leese = "30s"
        batch = 0
        [queues.io]
        concurrency = "many"
        max_rss = -1
        [queues."two words"]
        [retention]
        dead = "-1d"
        """
    assert mistakes(tmp_path, toml) == [
        'stoker.toml: app: expected importable module names such as shop.jobs, got "not a module"',
        "stoker.toml: database_url: expected a postgresql:// URL, got a mysql:// one",
        'stoker.toml: grace: expected a duration from 500ms to 1d, got "soon"',
        'stoker.toml: health: expected "HOST:PORT" such as "127.0.0.1:8585", or "off", got "8585"',
        "stoker.toml: leese: unknown setting; did you mean lease?",
        "stoker.toml: batch: expected a whole number from 1 to 1000, got 0",
        'stoker.toml: retention.dead: expected a duration from 0s to 3650d, got "-1d"',
        'stoker.toml: queues.io.concurrency: expected a whole number from 1 to 1000, got "many"',
        "stoker.toml: queues.io.max_rss: expected a size from 1048576 to 1125899906842624 bytes such as 64KiB, got -1",
        "stoker.toml: queues.two words: expected a queue name of 1 to 63 letters, digits, _ . or -",
    ]


def test_mistakes_of_all_sources_are_told_together(tmp_path: Path) -> None:
    env = {"STOKER_GRAEC": "1s", "STOKER_LEASE": "x", "STOKER_QUEUES": "a=b,c=2000"}
    assert mistakes(tmp_path, 'grace = "x"', env, {"queues": ["io=1x5000", "io=1"], "health": "::1:80"}) == [
        'stoker.toml: grace: expected a duration from 500ms to 1d, got "x"',
        "STOKER_GRAEC: unknown variable; did you mean STOKER_GRACE?",
        'STOKER_LEASE: lease: expected a duration from 1s to 1d, got "x"',
        'STOKER_QUEUES: queues: expected NAME=PROCESSES or NAME=PROCESSESxCONCURRENCY such as io=1x50, got "a=b"',
        "STOKER_QUEUES: queues.c.processes: expected a whole number from 1 to 256, got 2000",
        "--queue: queues.io: this queue is given twice",
        '--health: health: expected "HOST:PORT" such as "127.0.0.1:8585", or "off", got "::1:80"',
    ]


@pytest.mark.parametrize(
    ("toml", "line"),
    [
        (
            'lease = "2.5s"\nkill_after = "0.1s"\nrenew_every = "1s"',
            "lease: must be at least three times renew_every (3s), it is 2.5s",
        ),
        ('lease = "5s"', "lease: must be longer than kill_after + 2s (5s), it is 5s"),
        ('kill_after = "5s"\nlease = "6s"', "lease: must be longer than kill_after + 2s (7s), it is 6s"),
        (
            "[queues.io]\nmax_rss = 2000000\nkill_rss = 2000000",
            "queues.io.kill_rss: must be larger than max_rss (2000000)",
        ),
        ("max_payload = 1024", "max_result: must not be larger than max_payload (1024)"),
        ('direct_database_url = "postgresql:///d"', "direct_database_url: needs database_url"),
        ("[queues]", "queues: expected at least one queue"),
        ("queues = 3", "queues: expected a table, got 3"),
        ("[queues]\nio = 2", "queues.io: expected a table, got 2"),
        ('retention = "1d"', 'retention: expected a table, got "1d"'),
        ("[queues.io]\nconcurency = 2", "queues.io.concurency: unknown setting; did you mean concurrency?"),
        ("[retention]\nfailed = 1", "retention.failed: unknown setting"),
        ("[queue.io]", "queue: unknown setting; did you mean queues?"),
        ("grace = true", "grace: expected a duration from 500ms to 1d, got true"),
        ("grace = nan", "grace: expected a duration from 500ms to 1d, got nan"),
        ("grace = 1979-05-27", "grace: expected a duration from 500ms to 1d, got 1979-05-27"),
        ('notify = "maybe"', 'notify: expected true or false, got "maybe"'),
        ('log_level = "loud"', 'log_level: expected one of debug, info, warning, error, got "loud"'),
        ('health = "h:65536"', "health: expected"),
        ('runtime_dir = "run"', 'runtime_dir: expected an absolute path, got "run"'),
        ('app = [""]', "app: expected importable module names such as shop.jobs"),
        ("[queues.io]\njitter = 1.5", "queues.io.jitter: expected a number from 0 to 0.9, got 1.5"),
        ("grace = ", "line 1: is not TOML: Invalid value"),
        ("a = 1\nb = 2\na = 3", "line 3: is not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 9000, "is nested too deeply"),
    ],
)
def test_each_mistake_has_its_own_words(tmp_path: Path, toml: str, line: str) -> None:
    (found,) = mistakes(tmp_path, toml)
    assert found.startswith(f"stoker.toml: {line}")


def test_a_conflict_names_the_source_that_caused_it(tmp_path: Path) -> None:
    assert mistakes(tmp_path, env={"STOKER_KILL_AFTER": "5s"}, flags={"lease": "6s"})[0].startswith("--lease: lease: ")
    assert mistakes(tmp_path, env={"STOKER_RENEW_EVERY": "1.5s", "STOKER_LEASE": "4s", "STOKER_KILL_AFTER": "1s"}) == [
        "STOKER_LEASE: lease: must be at least three times renew_every (4.5s), it is 4s"
    ]


def test_a_wrong_value_raises_no_conflict_besides(tmp_path: Path) -> None:
    assert len(mistakes(tmp_path, 'lease = "x"\nkill_after = "5s"')) == 1


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stoker.toml").write_bytes(b'grace = "\xff"')
    assert mistakes(tmp_path) == ["stoker.toml: is not UTF-8 text: byte 9"]
    (tmp_path / "folder").mkdir()
    assert mistakes(tmp_path, 'grace = "1s"', {"STOKER_CONFIG": "folder"}) == ["folder: cannot be read: Is a directory"]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "nats"])
def test_drivers_that_do_not_exist_are_refused_by_name(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(DriverNotImplemented, match=f"no queue driver for {scheme}://"):
        load_from(tmp_path, f'database_url = "{scheme}://:s3cret@h/0"')
    lines = mistakes(tmp_path, f'database_url = "{scheme}://h"\ngrace = "x"')
    assert "STOKER_NOT_IMPLEMENTED" in lines[0]
    assert len(lines) == 2


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:s3cret@db:port/d",
        "postgresql://app:s3%zzcret@db/d",
        "mysql://app:s3cret@db/d",
        "password=s3cret s3cret",
        "postgresql://app:s3cret@db/d?nonsense=1",
        "s3cret",
        "postgresql://a:s3cret@h:70000/d",
        "postgresql://app:s3cret\\u0000@db/d",
        "",
    ],
)
def test_a_wrong_database_url_is_refused_without_showing_its_password(tmp_path: Path, url: str) -> None:
    (line,) = mistakes(tmp_path, f'database_url = "{url}"')
    assert line.startswith("stoker.toml: database_url: expected a ")
    assert "s3" not in line
    assert "cret" not in line


def test_a_url_in_the_wrong_place_keeps_its_password(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, 'health = "postgresql://app:s3cret@db/d"')
    assert "s3cret" not in line


def test_settings_travel_as_json() -> None:
    found = Settings(
        app=("a.b",),
        database_url="postgresql://u:pw@h/d",
        health=("::1", 0),
        queues={"io": QueueSettings(processes=1, concurrency=50, max_rss=2**30)},
        retention=RetentionSettings(done=0),
    )
    assert settings.from_json(settings.to_json(found)) == found
    assert settings.from_json(settings.to_json(Settings(health=None))).health is None


def test_settings_cannot_be_changed_and_do_not_show_passwords() -> None:
    found = Settings(database_url="postgresql://u:s3cret@h/d", direct_database_url="host=h password=s3cret")
    with pytest.raises(AttributeError):
        found.grace = 1  # type: ignore[misc]
    assert "s3cret" not in repr(found)
    assert "h/d" in repr(found)


toml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from([*Settings.__struct_fields__, "nonsense"]), toml_values),
    st.dictionaries(st.sampled_from([f"STOKER_{key.upper()}" for key in (*SCALARS, "queues")]), st.text()),
)
def test_nonsense_is_either_settings_or_a_list_of_mistakes(tree: dict[str, Any], env: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        try:
            found = load(tree, directory=Path(directory), environ=env)
        except (SettingsInvalid, DriverNotImplemented) as error:
            assert str(error)
        else:
            assert settings.from_json(msgspec.json.encode(found)) == found


def cgroup(root: Path, files: Mapping[str, str], membership: str) -> dict[str, Path]:
    """Lay out a control group file system."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "self").write_text(membership)
    return {"proc": root / "self", "cgroups": root}


@pytest.mark.parametrize(
    ("files", "membership", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, "0::/a/b\n", 0.5),
        (
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "25000\n", "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"},
            "3:cpu,cpuacct:/x\n",
            0.25,
        ),
        ({"cpu/cpu.cfs_quota_us": "25000\n", "cpu/cpu.cfs_period_us": "100000\n"}, "3:cpu:/docker/elsewhere\n", 0.25),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "3:cpu:/\n", None),
        ({"cpu.max": "100000 100000\n"}, "0::/../..\n", 1),
        ({"cpu.max": "nonsense"}, "nonsense", None),
        ({}, "", None),
    ],
)
def test_the_cpu_quota_of_a_container_counts(
    tmp_path: Path, files: Mapping[str, str], membership: str, quota: float | None
) -> None:
    paths = cgroup(tmp_path, files, membership)
    assert min(cgroups.cpu_quotas(**paths), default=None) == quota
    assert 1 <= settings.default_processes(**paths) <= max(1, min(8, round((quota or 8) + 0.5)))


MIB = 2**20


@pytest.mark.parametrize(
    ("files", "membership", "limits", "most"),
    [
        ({"memory.max": f"{300 * MIB}\n"}, "0::/\n", [300 * MIB], 2),
        ({"a/b/memory.max": "max\n", "a/memory.max": f"{128 * MIB}\n"}, "0::/a/b\n", [128 * MIB], 1),
        ({"memory.max": f"{50 * MIB}\n"}, "0::/\n", [50 * MIB], 1),
        ({"memory/x/memory.limit_in_bytes": f"{256 * MIB}\n"}, "4:memory:/x\n", [256 * MIB], 2),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, "4:memory:/\n", [], 8),
        ({"memory.max": "nonsense"}, "0::/\n", [], 8),
        ({}, "", [], 8),
    ],
)
def test_the_memory_limit_of_a_container_counts(
    tmp_path: Path, files: Mapping[str, str], membership: str, limits: list[int], most: int
) -> None:
    paths = cgroup(tmp_path, files, membership)
    assert cgroups.memory_limits(**paths) == limits
    assert 1 <= settings.default_processes(**paths) <= most


@pytest.mark.parametrize(
    ("files", "membership", "found"),
    [
        ({"a/memory.events": "oom 0\noom_kill 3\n"}, "0::/a\n", "a/memory.events"),
        ({"memory/memory.oom_control": "under_oom 0\noom_kill 3\n"}, "4:memory:/x\n", "memory/memory.oom_control"),
        ({"memory/memory.oom_control": "under_oom 0\n"}, "4:memory:/\n", None),
        ({}, "0::/\n", None),
    ],
)
def test_where_the_kernel_counts_the_processes_it_ended(
    tmp_path: Path, files: Mapping[str, str], membership: str, found: str | None
) -> None:
    assert cgroups.memory_events(**cgroup(tmp_path, files, membership)) == (tmp_path / found if found else None)


def test_the_runtime_directory_is_made_for_us_alone(tmp_path: Path) -> None:
    directory = settings.resolve_runtime_dir(Settings(runtime_dir=str(tmp_path / "a" / "b")))
    assert directory == tmp_path / "a" / "b"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert settings.resolve_runtime_dir(Settings(runtime_dir=str(directory))) == directory


def test_a_runtime_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "file/below", "link"):
        with pytest.raises(SettingsInvalid, match="runtime_dir: no directory for lock files"):
            settings.resolve_runtime_dir(Settings(runtime_dir=str(tmp_path / name)))


def test_the_default_runtime_directory_depends_on_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine.runtime_directories() == [tmp_path / "stoker", Path("/var/tmp/stoker-1000")]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert machine.runtime_directories()[0] == Path("/run/stoker")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert machine.runtime_directories()[1:] == [Path("/var/tmp/stoker-0")]
