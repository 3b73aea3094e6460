"""The stack file: what a process leaves in it, however it is kept busy, and what of that is told."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from supervisor.stacks import MOST_BYTES, StackFile, arrange
from tests.deaf_bodies import computes, keeps_the_gil, masks_its_signals, swallows_for_ever, waits_in_c
from tests.support import until
from worker_proc.stack import DUMP, dump_from_here, leave_stacks_in

BODY = '  File "/app/stoker/body.py", line 60 in run_sync\n'
MAIN = '  File "/app/run.py", line 1 in main\n'


def thread(number: int, *frames: str, name: str = "Thread") -> str:
    return f"{name} 0x{number:016x} (most recent call first):\n{''.join(frames)}\n"


@contextmanager
def forked(live: Callable[[int], object]) -> Iterator[tuple[int, StackFile]]:
    """A copy of this process that leaves its stacks; yields the number it says."""
    file = StackFile()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            leave_stacks_in(file.fd)
            live(writing)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        yield int.from_bytes(os.read(reading, 8), "little"), file
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        file.close()


def busy_with(body: Callable[[], object]) -> Callable[[int], object]:
    """A process whose control thread waits beside a body in the main thread."""

    def live(said: int) -> None:
        started = threading.Event()

        def serve() -> None:
            tid = dump_from_here()
            os.write(said, os.getpid().to_bytes(4, "little") + tid.to_bytes(4, "little"))
            started.set()
            threading.Event().wait()

        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        threading.Thread(target=serve, daemon=True).start()
        started.wait()
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        body()

    return live


@pytest.mark.parametrize("body", [swallows_for_ever, waits_in_c, masks_its_signals, keeps_the_gil, computes])
def test_a_process_tells_where_it_is_as_often_as_it_is_asked(body: Callable[[], object]) -> None:
    with forked(busy_with(body)) as (ids, file):
        pid, tid = ids & 0xFFFFFFFF, ids >> 32

        def tells() -> bool:
            assert file.ask(pid, tid)
            until(lambda: file.size > 0)
            return f"in {body.__name__}" in until(file.read)

        for _ in range(3):
            until(tells)


def test_a_copy_of_a_process_tells_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    def live(said: int) -> None:
        copy = os.fork()
        if copy == 0:
            os.abort()
        os.waitpid(copy, 0)
        os.write(said, b"x")
        signal.pause()

    with forked(live) as (_, file):
        assert file.size == 0
    assert "Fatal Python error: Aborted" in capfd.readouterr().err


def test_nobody_to_ask() -> None:
    file = StackFile()
    assert not file.ask(0, 0)
    assert not file.ask(os.getpid(), 0)
    assert not file.ask(os.getpid(), 2**22 + 1), "more than any kernel has"
    file.close()


def test_bodies_come_first_and_main_before_the_rest() -> None:
    dump = thread(3, MAIN) + thread(2, BODY) + thread(1, MAIN, name="Current thread")
    assert re.findall("0x0*([0-9]+)", arrange(dump.encode())) == ["2", "1", "3"]


def test_who_faulted_comes_before_all() -> None:
    dump = "Fatal Python error: Segmentation fault\n\n" + thread(3, BODY) + thread(2, MAIN, name="Current thread")
    dump += thread(1, MAIN) + "Extension modules: a, b (total: 2)\n"
    said = arrange(dump.encode())
    assert said.startswith("Fatal Python error: Segmentation fault\n\nCurrent thread")
    assert said.index("0x0000000000000003") < said.index("0x0000000000000001")
    assert said.endswith("Extension modules: a, b (total: 2)")


def test_how_it_was_forked_is_left_out() -> None:
    child = '  File "/app/worker_proc/child.py", line 54 in run_child\n'
    said = arrange((thread(2, BODY, child, MAIN, MAIN) + thread(1, MAIN)).encode())
    assert said.count("in main") == 1
    assert "in run_child" in said


def test_what_is_told_is_text_postgresql_takes_and_not_too_long() -> None:
    assert arrange(b"") == ""
    assert arrange(b"\0\0\xffa\0") == "\ufffda"
    many = "".join(thread(number, MAIN * 5) for number in range(500)) + thread(501, BODY, "é" * MOST_BYTES)
    said = arrange(many.encode())
    assert len(said.encode()) <= MOST_BYTES
    assert BODY in said


def test_the_signal_is_one_nobody_else_has() -> None:
    assert signal.SIGRTMIN < DUMP < signal.SIGRTMAX
