"""The hands when the system has nothing left to give."""

from contextlib import closing
from pathlib import Path

import pytest

from stoker.settings import QueueSettings, Settings
from supervisor.hands import Hands
from supervisor.host_lock import HostLock
from supervisor.house import House
from worker_proc.channel import Channel


def test_a_child_that_gets_no_pipe_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    settings = Settings(queues={"default": QueueSettings(processes=1)})
    with closing(House(settings, lock=HostLock(tmp_path))) as house:
        hands = Hands(house, on_message=lambda child, message: None)
        monkeypatch.setattr(Channel, "pair", refuse)
        before = set(Path("/proc/self/fd").iterdir())
        with pytest.raises(OSError, match="Too many"):
            hands.spawn(house.ledger.seats[0], None)
        assert set(Path("/proc/self/fd").iterdir()) <= before
        assert not house.ledger.children
