"""The health server: codes through a whole life, exact numbers, no client that holds it up."""

import itertools
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from supervisor.health import HealthServer
from tests.supervisor.harness import Running, descriptors
from tests.support import HANGS_S, until

Start = Callable[..., Running]
HEALTH = "127.0.0.1:0"


class Poller:
    """Asks /readyz and /livez fifty times a second and remembers every answer."""

    def __init__(self, url: str) -> None:
        self.seen: list[tuple[float, str, int, Any]] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._over.wait(0.02):
            for path in ("/readyz", "/livez"):
                self.seen.append((time.monotonic(), path, *self._ask(path)))

    def _ask(self, path: str) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(self._url + path, timeout=HANGS_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, None

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def codes(self, path: str) -> list[int]:
        """The codes in order, repetitions removed."""
        return [code for code, _ in itertools.groupby(code for _, asked, code, _ in self.seen if asked == path)]


def test_the_codes_of_a_whole_life(start: Start) -> None:
    running = start(queues=["brief=2"], health=HEALTH, env={"FAKE_IMPORT_S": "0.3", "FAKE_BRIEF_S": "3"})
    poller = Poller(running.url())
    try:
        running.ready()
        until(lambda: 200 in poller.codes("/readyz"))
        os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
        running.wait_for("worker.ready", count=3)
        until(lambda: poller.seen[-1][2] == 200 and poller.codes("/readyz")[-1] == 200)
        began = running.signal(signal.SIGTERM)
        assert running.exit() == 0
        until(lambda: poller.codes("/readyz")[-1] == poller.codes("/livez")[-1] == 0)
    finally:
        poller.end()
    codes = poller.codes("/readyz")
    assert codes.index(200) <= 1, "it may be ready before it is asked; no flap"
    assert codes[codes.index(200) :] in ([200, 503, 0], [200, 503, 200, 503, 0]), "the gap may be shorter than a poll"
    assert poller.codes("/livez") == [200, 0], "alive until the very end"
    drain = [body for at, path, code, body in poller.seen if path == "/readyz" and at > began and code == 503]
    assert all("draining" in body["reasons"] for body in drain)
    in_flight = [body["in_flight"] for body in drain]
    assert in_flight[0] == 2, "at once: both bodies still had three seconds"
    assert in_flight == sorted(in_flight, reverse=True)


def test_the_body_says_what_is_missing(start: Start) -> None:
    running = start(queues=["busy=2", "good=1"], health=HEALTH).ready()
    until(lambda: running.get("/readyz")[0] == 200)
    _, body = running.get("/readyz")
    assert body == {
        "ready": True,
        "reasons": [],
        "in_flight": 2,
        "queues": {
            "busy": {"in_flight": 2, "ready_slots": 2, "slots": 2},
            "good": {"in_flight": 0, "ready_slots": 1, "slots": 1},
        },
    }
    os.kill(running.facts("boot", title="stoker: worker busy/0")[0]["pid"], signal.SIGSTOP)
    _, body = until(lambda: (lambda answer: answer if answer[0] == 503 else None)(running.get("/readyz")))
    assert body["reasons"] == ["worker busy/0 is stopped by a signal"]


def test_the_status_is_the_ledger(start: Start) -> None:
    running = start(queues=["good=1"], health=HEALTH).ready()
    code, status = running.get("/status")
    assert code == 200
    assert (status["phase"], status["generation"], status["deadline_left_s"]) == ("running", 1, None)
    assert {seat["name"]: seat["state"] for seat in status["seats"]} == {"keeper": "ready", "worker good/0": "ready"}
    assert {slot["pid"] for slot in status["slots"]} == {fact["pid"] for fact in running.facts("boot")}
    until(lambda: all(slot["rss_bytes"] > 0 for slot in running.get("/status")[1]["slots"]))


def test_metrics_have_the_names_that_dashboards_use(start: Start) -> None:
    running = start(queues=["busy=1"], health=HEALTH).ready()
    os.kill(running.facts("boot", role="worker")[0]["pid"], signal.SIGKILL)
    running.wait_for("worker.ready", count=2)
    facts = (
        *("restarts_total{", 'stoker_in_flight{queue="busy"} 1.0'),
        'stoker_children{role="worker",state="ready"} 1.0',
    )
    text = until(lambda: body if all(fact in (body := running.get("/metrics")[1]) for fact in facts) else "")
    assert 'stoker_child_restarts_total{reason="crash",role="worker"} 1.0' in text.replace(
        'role="worker",reason="crash"', 'reason="crash",role="worker"'
    )
    queues = ("queue_depth", "queue_oldest_ready_seconds", "queue_dead_jobs", "oldest_snapshot_seconds")
    for name in (*queues, "jobs_total", "job_duration_seconds"):
        assert f"# TYPE stoker_{name}" in text
    assert "python_info" not in text, "a registry of its own"


def test_other_pages_and_methods(start: Start) -> None:
    running = start(health=HEALTH)
    assert running.get("/")[0] == 404
    request = urllib.request.Request(running.url() + "/livez", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=5)
    refused.value.close()
    assert refused.value.code == 405
    head = urllib.request.Request(running.url() + "/livez", method="HEAD")
    with urllib.request.urlopen(head, timeout=5) as answer:
        assert (answer.status, answer.read()) == (200, b"")


def test_clients_that_say_nothing_hold_up_nobody(start: Start) -> None:
    running = start(health=HEALTH).ready()
    host, port = running.url().removeprefix("http://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(50)]
    try:
        assert running.get("/livez")[0] == 200, "sooner than anybody's patience ends"
        running.signal(signal.SIGTERM)
        assert running.exit() == 0
    finally:
        for client in silent:
            client.close()


def test_an_address_in_use_is_a_matter_of_configuration(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = start(health=f"127.0.0.1:{port}")
        assert running.exit() == 78
        assert f"cannot listen on 127.0.0.1:{port}" in running.log()
        assert "Fix:" in running.log()
        assert "Traceback" not in running.log()


def test_no_child_holds_the_port(start: Start) -> None:
    running = start(queues=["good=1"], health=HEALTH).ready()
    own = set(descriptors(running.pid))
    for pid in (running.events("app.imported")[0]["pid"], *(fact["pid"] for fact in running.facts("boot"))):
        assert not {target for target in own & set(descriptors(pid)) if target.startswith("socket")}


def test_ipv6_works() -> None:
    server = HealthServer(("::1", 0), board=None, snapshot=lambda: None)  # type: ignore[arg-type, return-value]
    try:
        assert server.url.startswith("http://[::1]:")
    finally:
        server.close()
