"""Which deaths the kernel's OOM killer is held responsible for."""

from pathlib import Path

import pytest

from supervisor.oom import REMEMBERED_NS, OomWatch

S = 1_000_000_000


def write(events: Path, kills: int) -> None:
    events.write_text(f"low 0\nhigh 0\nmax 7\noom {kills}\noom_kill {kills}\n")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "memory.events"
    write(file, 3)
    return file


def test_what_was_counted_before_explains_nothing(events: Path) -> None:
    assert not OomWatch(events).claim(S)


def test_a_kill_explains_one_death(events: Path) -> None:
    watch = OomWatch(events)
    write(events, 4)
    assert watch.claim(S)
    assert not watch.claim(S)
    write(events, 6)
    assert (watch.claim(S), watch.claim(S), watch.claim(S)) == (True, True, False)


def test_a_process_may_take_a_moment_to_end(events: Path) -> None:
    watch = OomWatch(events)
    write(events, 4)
    watch.look(S)
    watch.look(2 * S)
    assert watch.claim(S + REMEMBERED_NS)
    write(events, 5)
    watch.look(10 * S)
    assert not watch.claim(10 * S + REMEMBERED_NS + 1), "it was somebody else's"


def test_a_file_that_cannot_be_read_explains_nothing(tmp_path: Path) -> None:
    assert not OomWatch(None).claim(S)
    assert not OomWatch(tmp_path / "none").claim(S)
    (tmp_path / "strange").write_text("oom_kill many\noom_kill")
    assert not OomWatch(tmp_path / "strange").claim(S)
