"""What the service manager hears, through a fake notify socket."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.notify import Notifier
from tests.supervisor.harness import Running
from tests.support import HANGS_S, until

Start = Callable[..., Running]


class Manager:
    """A service manager that only listens."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)
        self.heard: list[dict[str, str]] = []

    def listen(self) -> list[dict[str, str]]:
        while True:
            try:
                packet = self.socket.recv(4096)
            except BlockingIOError:
                return self.heard
            self.heard.append(dict(line.split("=", 1) for line in packet.decode().splitlines()))

    def having(self, word: str) -> list[dict[str, str]]:
        return [packet for packet in self.listen() if word in packet]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(str(tmp_path / "notify"))
    yield found
    found.socket.close()


def test_ready_status_watchdog_and_stopping(start: Start, manager: Manager, tmp_path: Path) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
    running = start(queues=["brief=1"], env=env)
    ready = until(lambda: manager.having("READY"))
    assert ready == [{"READY": "1", "MAINPID": str(running.pid)}]
    until(lambda: [said["STATUS"] for said in manager.having("STATUS")][-1:] == ["1 of 1 workers ready"])
    count = len(manager.having("WATCHDOG"))
    until(lambda: len(manager.having("WATCHDOG")) >= count + 3)
    running.signal(signal.SIGTERM)
    assert running.exit() == 0
    assert manager.having("STOPPING") == [{"STOPPING": "1"}]
    assert len(manager.having("READY")) == 1
    heard = manager.listen()
    assert heard.index({"STOPPING": "1"}) > heard.index(ready[0])


def test_a_reload_is_reported_from_begin_to_end(start: Start, manager: Manager, tmp_path: Path) -> None:
    running = start(queues=["good=1"], env={"NOTIFY_SOCKET": str(tmp_path / "notify")}).ready()
    running.signal(signal.SIGHUP)
    reloading = until(lambda: manager.having("RELOADING"))
    assert abs(int(reloading[0]["MONOTONIC_USEC"]) / 1e6 - time.monotonic()) < HANGS_S
    until(lambda: len(manager.having("READY")) == 2)


def test_a_manual_stop_asks_for_more_time(start: Start, manager: Manager, tmp_path: Path) -> None:
    running = start(queues=["stubborn=1"], grace="500ms", env={"NOTIFY_SOCKET": str(tmp_path / "notify")}).ready()
    running.signal(signal.SIGQUIT)
    assert until(lambda: manager.having("EXTEND_TIMEOUT_USEC"))[0] == {"EXTEND_TIMEOUT_USEC": "30000000"}
    running.signal(signal.SIGTERM)
    assert running.exit() == 75


def test_abstract_sockets_and_cleaned_environment() -> None:
    name = f"stoker-test-{os.getpid()}-{time.monotonic_ns()}"
    listener = Manager("\0" + name)
    environ = {"NOTIFY_SOCKET": "@" + name, "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1", "HOME": "/"}
    notifier = Notifier(environ)
    try:
        notifier.stopping()
        notifier.watchdog(1)
        assert listener.listen() == [{"STOPPING": "1"}], "the watchdog is another process's"
        assert environ == {"HOME": "/"}
    finally:
        notifier.close()
        listener.socket.close()


def test_without_a_manager_nothing_happens() -> None:
    notifier = Notifier({})
    notifier.ready()
    notifier.watchdog(1)
    assert notifier.next_look() is None
    notifier.close()


def test_a_manager_that_does_not_read_holds_nobody_up(manager: Manager, tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    try:
        for number in range(5_000):
            notifier.status(f"line {number}")
    finally:
        notifier.close()
