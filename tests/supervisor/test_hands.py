"""The hands when the system has nothing left to give."""

import itertools
import os
import selectors
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn, cast

import pytest

from stoker.settings import QueueSettings, Settings
from supervisor.fork_client import ForkClient
from supervisor.hands import Hands
from supervisor.host_lock import HostLock
from supervisor.house import House
from worker_proc.channel import Channel

NOBODY = cast(ForkClient, None)


def refuse(*_: object) -> NoReturn:
    raise OSError(24, "Too many open files")


def refuse_the(number: int, what: Callable[..., int]) -> Callable[..., int]:
    """Let the first ones pass."""
    calls = itertools.count(1)
    return lambda *args: what(*args) if next(calls) < number else refuse()


@pytest.mark.parametrize(
    ("place", "name", "number"),
    [
        (os, "memfd_create", 1),
        (Channel, "pair", 1),
        *((os, "dup", number) for number in (1, 2, 3)),
        (selectors.DefaultSelector, "register", 1),
    ],
)
def test_a_child_that_gets_no_descriptor_was_never_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str, number: int
) -> None:
    settings = Settings(queues={"default": QueueSettings(processes=1)})
    with closing(House(settings, lock=HostLock(tmp_path))) as house:
        hands = Hands(house, on_message=lambda child, message: None)
        keeper = house.ledger.seats[0]
        before = set(Path("/proc/self/fd").iterdir())
        monkeypatch.setattr(place, name, refuse_the(number, getattr(place, name)))
        with pytest.raises(OSError, match="Too many"):
            hands.spawn(keeper, NOBODY)
        monkeypatch.undo()
        assert set(Path("/proc/self/fd").iterdir()) <= before
        assert not house.ledger.children
        assert house.ledger.free_slot(keeper)
