"""A TCP proxy in front of PostgreSQL that can stop forwarding without closing, or refuse."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any

import psycopg


class Proxy:
    """Forwards to the server of `url`: `blackhole()` freezes, `refuse()` closes and refuses, `heal()` forwards."""

    def __init__(self, url: str) -> None:
        info = psycopg.conninfo.conninfo_to_dict(url)
        self._upstream = f"{info['host']}/.s.PGSQL.{info.get('port') or 5432}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=self._listener.getsockname()[1])
        self._mode = "forward"
        self._changed, self._change = socket.socketpair()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: Any) -> None:
        self._set("end")
        self._thread.join()
        for end in (self._listener, self._changed, self._change):
            end.close()

    def blackhole(self) -> None:
        """Accept and answer nothing, close nothing."""
        self._set("blackhole")

    def refuse(self) -> None:
        """As if the server was stopped."""
        self._set("refuse")

    def heal(self) -> None:
        """Forward again; what was frozen stays dead."""
        self._set("forward")

    def _set(self, mode: str) -> None:
        self._mode = mode
        self._change.send(b"x")

    def _serve(self) -> None:
        while self._mode != "end":
            frozen = self._mode == "blackhole"
            sources = [self._changed] if frozen else [self._changed, self._listener, *self._pairs]
            for source in select.select(sources, [], [])[0]:
                if source is self._changed:
                    self._changed.recv(64)
                    if self._mode in ("refuse", "end"):
                        self._close_all()
                elif source is self._listener:
                    self._accept()
                elif source in self._pairs:
                    self._forward(source)
        self._close_all()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._mode == "refuse":
            client.close()
            return
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._upstream)
        except OSError:
            client.close()
            server.close()
            return
        self._pairs[client], self._pairs[server] = server, client

    def _forward(self, source: socket.socket) -> None:
        try:
            data = self._read(source)
            if data:
                self._pairs[source].sendall(data)
                return
        except OSError:
            pass
        self._close(source)

    def _read(self, source: socket.socket) -> bytes:
        return source.recv(65536)

    def _close(self, source: socket.socket) -> None:
        other = self._pairs.pop(source)
        self._pairs.pop(other, None)
        for end in (source, other):
            with contextlib.suppress(OSError):
                end.close()

    def _close_all(self) -> None:
        while self._pairs:
            self._close(next(iter(self._pairs)))
