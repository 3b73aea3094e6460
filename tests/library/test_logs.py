"""An event is one whole line, whatever it holds and whoever reads; nobody's reader holds up a job."""

import io
import json
import logging
import os
import pty
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import logs
from stoker.log_layout import Event, json_line, text_line
from stoker.log_words import WORDS
from stoker.outlet import Outlet
from tests.support import HANGS_S

PRELUDE = "import logging, os, sys\nfrom stoker import logs\nlog = logs.get('worker')\n"


def run(code: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a little program and return what it wrote."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([sys.executable, "-W", "error", "-c", PRELUDE + code], check=False, timeout=60, **options)


def lines_of(code: str) -> list[dict[str, Any]]:
    """Run a little program and return its JSON lines."""
    done = run(code)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stderr.splitlines()]


def full_pipe() -> tuple[int, int]:
    """Return a pipe that takes nothing more, blocking as shells make them."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for piece in (b"x" * 4096, b"x"):
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writer, piece)
    os.set_blocking(writer, True)
    return reader, writer


def test_an_event_is_a_json_line_with_its_facts_and_the_process_s() -> None:
    (line,) = lines_of("logs.configure('auto', 'info', role='worker', slot=2)\nlog.event('worker.ready', pid=4711)")
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "event": "worker.ready", "pid": 4711, "role": "worker", "slot": 2}


def test_levels_choose_what_is_written() -> None:
    code = (
        "logs.configure('json', 'warning')\nlog.event('a')\nlog.event('b', 'debug')\nlog.warning('c')\nlog.error('d')"
    )
    assert [(line["event"], line["level"]) for line in lines_of(code)] == [("c", "warning"), ("d", "error")]


def test_the_application_s_records_take_the_same_way() -> None:
    code = """
logs.configure('json', 'info', slot=1)
logging.getLogger('shop').warning('sold %d', 3, extra={'basket': 'b1'})
logs.job_logger(7, 'render', 2).info('page %s', 'one', extra={'page': 1})
try:
    1 / 0
except ZeroDivisionError:
    logging.exception('oops')
logging.getLogger('shop').info('%d', 'not a number')
"""
    sold, page, oops, odd = lines_of(code)
    assert (sold["message"], sold["logger"], sold["basket"], sold["slot"]) == ("sold 3", "shop", "b1", 1)
    assert (page["message"], page["job_id"], page["job"], page["attempt"], page["page"]) == (
        "page one",
        7,
        "render",
        2,
        1,
    )
    assert "ZeroDivisionError" in oops["traceback"]
    assert "not a number" in odd["message"]


def test_events_survive_an_application_that_configures_logging_and_appear_once() -> None:
    code = """
import logging.config
logs.configure('json')
logging.config.dictConfig({'version': 1, 'handlers': {'h': {'class': 'logging.StreamHandler', 'stream': sys.stdout}},
                           'root': {'handlers': ['h'], 'level': 'INFO'}})
logs.configure('json')
log.event('worker.ready')
logging.getLogger('shop').info('theirs')
logs.job_logger(7, 'render', 1).info('from a job')
"""
    done = run(code)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["worker.ready"]
    assert done.stdout.splitlines() == [b"theirs", b"from a job"]


def test_configuring_again_writes_each_line_once() -> None:
    lines = lines_of(
        "logs.configure('json', slot=1)\nlogs.configure('json', slot=2)\nlog.event('a')\nlogging.error('b')"
    )
    assert [line["slot"] for line in lines] == [2, 2]


def test_without_configure_events_go_to_the_standard_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logs.get("client").event("job.enqueued", job_id=3, url="postgresql://u:s3cret@h/d")
    assert caplog.messages == ["job.enqueued job_id=3 url=postgresql://u:***@h/d"]
    assert caplog.records[0].name == "stoker.client"


def at(facts: Mapping[str, object], name: str = "thing.happened", level: str = "info", **more: Any) -> Event:
    """Make an event of the year 2026."""
    return Event(1_780_000_000.5, level, name, facts, **more)


def test_a_terminal_gets_a_sentence_and_the_other_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORDS, "thing.happened", "the {thing} happened")
    clock = time.strftime("%H:%M:%S", time.localtime(1_780_000_000))
    assert (
        text_line(at({"thing": "storm", "slot": 2})).decode() == f"{clock} thing.happened the storm happened slot=2\n"
    )
    assert text_line(at({"slot": 2, "why": "two words"})).decode() == f'{clock} thing.happened slot=2 why="two words"\n'
    assert text_line(at({}, "other", "warning")).decode() == f"{clock} WARNING other\n"
    assert b"ready slot=2 pid=4711\n" in text_line(at({"slot": 2, "pid": 4711}, "worker.made-up.ready"))


def test_every_template_can_be_filled() -> None:
    for name, words in WORDS.items():
        assert words.format_map(defaultdict(lambda: "x")), name


def test_auto_writes_text_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    try:
        run("logs.configure()\nlog.event('worker.made', slot=2, pid=4711)", stderr=theirs)
        assert b" worker.made slot=2 pid=4711" in os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)


class Hostile:
    """An object of an application that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_strange_facts_are_shown_and_secrets_are_not() -> None:
    facts = {
        "nul": "a\0b",
        "surrogate": "a\udc80b",
        "nested": {"url": "postgresql://u:s3cret@h/d", 1: [Path("/tmp"), {2}]},
        "error": ValueError("cannot reach postgresql://u:s3cret@h/d"),
        "hostile": Hostile(),
        "big": 2**70,
        "nan": float("nan"),
        "time": "yesterday",
        "long": "y" * 100_000,
        "lines": "one\ntwo",
    }
    line = json_line(at(facts))
    found = json.loads(line)
    assert line.count(b"\n") == 1
    assert (found["nul"], found["surrogate"]) == ("a\ufffdb", "a?b")
    assert found["nested"] == {"url": "postgresql://u:***@h/d", "1": ["/tmp", [2]]}
    assert found["error"] == "ValueError: cannot reach postgresql://u:***@h/d"
    assert (found["hostile"], found["nan"]) == ("<unprintable Hostile>", None)
    assert found["time"].startswith("2026-")
    assert len(found["long"]) < 10_000
    assert text_line(at(facts)).count(b"\n") == 1
    assert b"s3cret" not in line + text_line(at(facts))


facts = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(st.characters(), max_size=9) | st.binary(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=5,
)


@given(facts, st.text(max_size=30))
def test_any_event_becomes_exactly_one_line(values: dict[str, object], text: str) -> None:
    event = at(values)
    assert json_line(event).count(b"\n") == text_line(event).count(b"\n") == 1
    json.loads(json_line(at(values, text, message=text)))
    text_line(at(values, text, message=text)).decode()


def test_an_endless_structure_has_an_end() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert len(json_line(at({"loop": loop}))) < 1000


def check_goes_on(done: subprocess.CompletedProcess[bytes]) -> None:
    """See that a program got to its end and tells how many lines it lost."""
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"went on, lost 100\n"


GOES_ON = """
logs.configure('json')
for n in range(100):
    log.event('a', n=n)
print('went on, lost', logs.lines_lost())
"""


def test_closed_standard_error_stops_nobody_and_number_2_is_not_given_to_a_socket() -> None:
    code = GOES_ON.replace(
        "lost', logs.lines_lost()", "lost', 100 if os.path.samefile('/dev/null', '/dev/fd/2') else 0"
    )
    command = f'exec {sys.executable} -c "$CODE" 2>&-'
    environment = {**os.environ, "CODE": PRELUDE + code}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, timeout=60, check=False)
    check_goes_on(done)


def test_a_broken_pipe_stops_nobody() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        check_goes_on(run(GOES_ON, stderr=writer))
    finally:
        os.close(writer)


def test_a_full_blocking_pipe_stops_nobody() -> None:
    reader, writer = full_pipe()
    try:
        started = time.monotonic()
        check_goes_on(run(GOES_ON, stderr=writer))
        assert time.monotonic() - started < 10
        assert os.get_blocking(writer)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_full_socket_stops_nobody() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                theirs.send(b"x" * 4096)
        theirs.setblocking(True)
        check_goes_on(run(GOES_ON, stderr=theirs.fileno()))


def test_a_full_disk_stops_nobody() -> None:
    with Path("/dev/full").open("wb") as full:
        check_goes_on(run(GOES_ON, stderr=full))


def test_lost_lines_are_told_once_the_reader_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logs.LineHandler(layout="json", facts={"slot": 2})
    reader, writer = full_pipe()
    monkeypatch.setattr(handler, "outlet", Outlet(fd=writer))
    try:
        for n in range(3):
            handler.handle(logging.makeLogRecord({"msg": f"lost {n}", "levelno": 20, "levelname": "INFO"}))
        drain(reader)
        for n in range(2):
            handler.handle(logging.makeLogRecord({"msg": f"kept {n}", "levelno": 20, "levelname": "INFO"}))
        lines = [json.loads(line) for line in os.read(reader, 65536).splitlines()]
    finally:
        os.close(reader)
        os.close(writer)
    assert [line.get("message", line["event"]) for line in lines] == ["log.dropped", "kept 0", "kept 1"]
    assert (lines[0]["count"], lines[0]["slot"], handler.lost) == (3, 2, 3)


def drain(reader: int) -> bytes:
    """Read what a pipe holds."""
    os.set_blocking(reader, False)
    held = b""
    try:
        while piece := os.read(reader, 65536):
            held += piece
    except BlockingIOError:
        return held
    return held


def test_a_line_that_was_torn_does_not_spoil_the_next() -> None:
    reader, writer = os.pipe()
    outlet = Outlet(fd=writer)
    try:
        assert not outlet.write(b"x" * 200_000 + b"\n")
        assert drain(reader).strip(b"x") == b""
        assert outlet.write(b"whole\n")
        assert drain(reader) == b"\nwhole\n"
        assert outlet.write(b"next\n")
        assert drain(reader) == b"next\n"
        assert outlet.dropped == 1
    finally:
        os.close(reader)
        os.close(writer)


def test_a_slow_reader_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    # A reader that gets no processor for a moment is not one that went away.
    monkeypatch.setattr("stoker.outlet._PATIENCE", HANGS_S)
    reader, writer = os.pipe()
    got: list[bytes] = []

    def read_all() -> None:
        while piece := os.read(reader, 1000):
            got.append(piece)

    thread = threading.Thread(target=read_all)
    thread.start()
    outlet = Outlet(fd=writer)
    lines = [b"%d " % n + b"z" * 900 + b"\n" for n in range(2000)]
    sent = [outlet.write(line) for line in lines]
    os.close(writer)
    thread.join(timeout=30)
    os.close(reader)
    assert all(sent)
    assert b"".join(got) == b"".join(lines)


def test_lines_of_several_processes_stay_whole() -> None:
    patient = "from stoker import outlet\noutlet._PATIENCE = 60\n"
    code = patient + "logs.configure('json')\nfor n in range(500):\n    log.event('a', n=n, text='z' * 700)"
    reader, writer = os.pipe()
    children = [subprocess.Popen([sys.executable, "-c", PRELUDE + code], stderr=writer) for _ in range(4)]
    os.close(writer)
    with io.open(reader, "rb") as stream:  # noqa: UP020
        lines = [json.loads(line) for line in stream]
    assert [child.wait(timeout=30) for child in children] == [0] * 4
    assert sorted(line["n"] for line in lines) == sorted(list(range(500)) * 4)


def open_descriptors() -> set[str]:
    """List the descriptors of this process."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_logging_opens_nothing_that_stays_open() -> None:
    reader, writer = os.pipe()
    before = open_descriptors()
    outlet = Outlet(fd=writer)
    for _ in range(50):
        outlet.write(b"line\n")
    assert open_descriptors() <= before
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("broken", ["full", "closed", "gone"])
def test_print_in_a_guarded_process_harms_nobody(broken: str) -> None:
    code = """
from stoker.outlet import guard_standard_streams
if BROKEN == 'closed': os.close(1)
guard_standard_streams()
for n in range(10_000): print('line', n, '\\udc80\\0')
sys.stdout.buffer.write(b'\\xff' * 1_000_000)
print(end='', flush=True)
sys.stderr.write('went on\\n')
"""
    reader, writer = full_pipe()
    if broken == "gone":
        os.close(reader)
    try:
        done = run(code.replace("BROKEN", repr(broken)), stdout=writer)
    finally:
        os.close(writer)
        if broken != "gone":
            os.close(reader)
    assert (done.returncode, done.stderr) == (0, b"went on\n")


def test_a_guarded_process_prints_whole_lines() -> None:
    done = run(
        "from stoker.outlet import guard_standard_streams\nguard_standard_streams()\nprint('é', '\\udc80', 1)\nprint(2)"
    )
    assert done.stdout == "é \\udc80 1\n2\n".encode()
