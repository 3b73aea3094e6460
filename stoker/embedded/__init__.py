"""Embedded PostgreSQL: a server of our own in one directory, up while somebody uses it."""

from stoker.embedded.control import StopReport, start, stop, wait_until_stopped
from stoker.embedded.errors import EmbeddedPostgresFailed
from stoker.embedded.server import Server, acquire, running_url

__all__ = [
    "EmbeddedPostgresFailed",
    "Server",
    "StopReport",
    "acquire",
    "running_url",
    "start",
    "stop",
    "wait_until_stopped",
]
