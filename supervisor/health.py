"""/livez /readyz /metrics /status, on threads that only read the snapshot and the board."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import orjson

from stoker import logs
from stoker.errors import HealthAddressUnusable
from supervisor import readiness
from supervisor.house import House
from supervisor.snapshot import Snapshot, as_status, in_flight
from worker_proc.board import Board, Word
from worker_proc.linux import boottime_ns

log = logs.get("supervisor")

CLIENT_PATIENCE_S: Final = 5.0
_WORDS: Final = {200: "200 OK", 404: "404 Not Found", 405: "405 Method Not Allowed", 503: "503 Service Unavailable"}


def open_health(house: House, address: tuple[str, int]) -> HealthServer:
    """Serve what is known of a house, and say where. Raises HealthAddressUnusable."""
    health = HealthServer(address, board=house.board, snapshot=lambda: house.snapshot)
    log.event("health.listening", url=health.url, readyz=f"{health.url}/readyz")
    return health


class HealthServer:
    """Answers from the moment it is made until `close`; a slow client holds up nobody but itself."""

    def __init__(self, address: tuple[str, int], *, board: Board, snapshot: Callable[[], Snapshot]) -> None:
        host, port = address
        self._pages = Pages(board=board, snapshot=snapshot)
        try:
            self._server = _server_class(host)((host, port), _Handler)
        except OSError as error:
            raise HealthAddressUnusable(host=host, port=port, error=error.strerror or str(error)) from error
        self._server.set_app(self._pages)
        self._server.timeout = 0
        self._end = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, name="health", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens; with the real port if the settings said 0."""
        host = self._server.server_name
        return f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_port}"

    def close(self) -> None:
        """Stop listening."""
        os.eventfd_write(self._end, 1)
        self._thread.join()
        self._server.server_close()
        os.close(self._end)

    def _serve(self) -> None:
        poll = select.poll()
        for source in (self._server.fileno(), self._end):
            poll.register(source, select.POLLIN)
        while self._end not in (fd for fd, _ in poll.poll()):
            self._server.handle_request()


class Pages:
    """The WSGI application."""

    def __init__(self, *, board: Board, snapshot: Callable[[], Snapshot]) -> None:
        self._board = board
        self._snapshot = snapshot
        self._pages = {"/livez": self._livez, "/readyz": self._readyz, "/status": self._status}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/metrics" and method == "GET":
            return self._metrics(environ, start_response)
        page = self._pages.get(path)
        if page is None:
            code, body = 404, {"error": "not found", "pages": [*self._pages, "/metrics"]}
        elif method not in ("GET", "HEAD"):
            code, body = 405, {"error": "only GET and HEAD"}
        else:
            code, body = page()
        content = orjson.dumps(body) + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(_WORDS[code], [*headers, ("Cache-Control", "no-store")])
        return [] if method == "HEAD" else [content]

    @cached_property
    def _metrics(self) -> WSGIApplication:
        # Imported when the first one asks: it takes time that a start does not have.
        from prometheus_client import CollectorRegistry, make_wsgi_app

        from supervisor.metrics import Metrics

        registry = CollectorRegistry(auto_describe=False)
        registry.register(Metrics(self._snapshot, now=time.monotonic_ns))
        return make_wsgi_app(registry)

    def _livez(self) -> tuple[int, dict[str, Any]]:
        stuck = readiness.loop_is_stuck(self._snapshot(), time.monotonic_ns())
        return (503, {"alive": False}) if stuck else (200, {"alive": True})

    def _readyz(self) -> tuple[int, dict[str, Any]]:
        snapshot, now = self._snapshot(), time.monotonic_ns()
        # The words are read here and not by the loop: from the first instant of a drain they say so.
        why = readiness.reasons(
            snapshot,
            now=now,
            draining=self._board[Word.PHASE] != 0,
            trusted=self._board.lease_trusted(boottime_ns()),
        )
        numbers = in_flight(snapshot)
        body = {
            "ready": not why,
            "reasons": why,
            "in_flight": sum(numbers.values()),
            "queues": {queue: self._queue(snapshot, queue, number, now) for queue, number in numbers.items()},
        }
        return (503 if why else 200), body

    def _queue(self, snapshot: Snapshot, queue: str, number: int, now: int) -> dict[str, int]:
        seats = [seat for seat in snapshot.seats if seat.queue == queue]
        ready = sum(readiness.is_ready(seat.child, lease_ns=snapshot.lease_ns, now=now) for seat in seats)
        return {"in_flight": number, "ready_slots": ready, "slots": len(seats)}

    def _status(self) -> tuple[int, dict[str, Any]]:
        return 200, as_status(self._snapshot(), time.monotonic_ns())


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_PATIENCE_S
    # In one piece: should the process end meanwhile, a client has all of an answer or none.
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name is the base class's)
        """Probes come every few seconds; nobody wants to read of them."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        """Bind without asking the name service who we are: it may not answer."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is its own affair."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server_class(host: str) -> type[_Server]:
    return _Server6 if ":" in host else _Server
