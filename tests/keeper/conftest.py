"""Hosts with keepers driven by hand, over a real database."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.keeper.rig import Host, Queue


@pytest.fixture
def queue(database_url: str) -> Iterator[Queue]:
    """A connection of the application's."""
    queue = Queue(database_url)
    yield queue
    queue.close()


@pytest.fixture
def rival(database_url: str) -> Iterator[Queue]:
    """Another connection, for what one session alone cannot do to itself."""
    rival = Queue(database_url)
    yield rival
    rival.close()


@pytest.fixture
def make_host(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Makes hosts and closes them after the test."""
    hosts: list[Host] = []

    def make(name: str = "a", queues: tuple[str, ...] = (), **settings: Any) -> Host:
        hosts.append(Host(database_url, tmp_path, name=name, queues=queues, **settings))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


@pytest.fixture
def host(make_host: Callable[..., Host]) -> Host:
    """One host with two workers of the queue `default`."""
    return make_host(queues=("default", "default"))
