"""Where nobody holds jobs by row locks, or one at a time."""

import re
import socket
from pathlib import Path

import pytest

from tests.end_to_end.short_stage import staged
from tests.proxy import Proxy
from tests.side_table import Database


class LendingProxy(Proxy):
    """Tells clients another process id than their session's, as proxies do that lend sessions per transaction."""

    def _read(self, source: socket.socket) -> bytes:
        # BackendKeyData, once per connection: its length, the process id, the secret.
        return re.sub(rb"K\0\0\0\x0c....", b"K\0\0\0\x0c\0\0\0\7", super()._read(source), flags=re.DOTALL)


@pytest.mark.parametrize("why", ["the setting", "a proxy that lends sessions"])
def test_everything_is_leased(tmp_path: Path, db: Database, why: str) -> None:
    with LendingProxy(db.url) as proxy:
        env = {"STOKER_ROW_LOCKS": "off"} if why == "the setting" else {"url": proxy.url}
        env |= {"TEST_SIDE_TABLE": db.url, "STOKER_DIRECT_DATABASE_URL": db.url}
        with staged(tmp_path, db, warm=False, **env) as stage:
            jobs = stage.put(*[{"do": "look"}, {}, {}] * 100)
            db.until_all_done(jobs)
            assert stage.effects.said(*jobs) == {"leased": 100}


def test_a_queue_that_writes_each(tmp_path: Path, db: Database) -> None:
    (tmp_path / "stoker.toml").write_text('[queues.default]\nack = "each"\n')
    with staged(tmp_path, db) as stage:
        jobs = stage.put(*[{}] * 100, name="together")
        db.until_all_done(jobs)
        assert stage.effects.said(*jobs)["unwritten"] == 0
        assert stage.effects.said(*jobs)["written"] > 90
