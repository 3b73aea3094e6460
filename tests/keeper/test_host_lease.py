"""The host lease: what the keeper writes to its row and to the board, and what ends the trust."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.settings import Settings
from supervisor.deaths import cap_trust
from tests.keeper.rig import Host, Queue
from tests.support import until
from worker_proc.board import Word
from worker_proc.host_lease import Windows
from worker_proc.link import LinkDown
from worker_proc.linux import boottime_ns
from worker_proc.messages import HostLost, Ready

S = 1_000_000_000


@pytest.mark.parametrize(
    ("lease", "locked", "trust"), [(30.0, True, 25), (30.0, False, 5), (8.0, True, 3), (8.0, False, 3)]
)
def test_a_lease_is_trusted_until_a_kill_would_still_be_in_time(lease: float, locked: bool, trust: int) -> None:
    windows = Windows.of(Settings(lease=lease, kill_after=3.0))
    assert windows.trusted_until(100 * S, locked=locked) == (100 + trust) * S


def test_the_first_turn_takes_the_lease_and_says_ready(host: Host, queue: Queue) -> None:
    boot = host.boot()
    assert not host.board.lease_trusted(boottime_ns())
    before = boottime_ns()
    boot.until_said(Ready)
    row = queue.rows("select id, renewals, machine, lock_path, lock_inode from stoker.hosts")
    assert [r[0] for r in row] == [host.id] and 0 < host.id < 2**62
    assert row[0][3] == str(host.lock.path)
    assert before + 25 * S <= host.board[Word.TRUSTED_UNTIL] <= boottime_ns() + 25 * S
    assert host.board.lease_trusted(boottime_ns())
    assert queue.advisory_locks(boot.backend_pid()) == 1


def test_renewals_move_the_row_and_the_trust(make_host: Callable[..., Host], queue: Queue) -> None:
    host = make_host(renew_every=0.05)
    boot = host.boot()
    boot.until_said(Ready)
    trusted, renewals = host.board[Word.TRUSTED_UNTIL], queue.one("select renewals from stoker.hosts")
    boot.turn_until(lambda: queue.one("select renewals from stoker.hosts") > renewals + 3)
    assert host.board[Word.TRUSTED_UNTIL] > trusted


def test_a_restarted_keeper_continues_the_same_row(host: Host, queue: Queue) -> None:
    first = host.boot()
    first.until_said(Ready)
    host_id, renewals = host.id, queue.one("select renewals from stoker.hosts")
    first.close()
    second = host.boot()
    second.until_said(Ready)
    assert host.id == host_id
    assert queue.one("select renewals from stoker.hosts") > renewals
    assert queue.one("select count(*) from stoker.hosts") == 1
    second.turn_until(lambda: host.board[Word.TRUSTED_UNTIL] > boottime_ns() + 20 * S)
    assert not second.heard(HostLost)


def test_a_former_session_that_lingers_is_ended(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    host_id = host.id
    lingering = boot.keeper.session.conn
    # The keeper takes its session for lost, and the server does not know that yet.
    boot.keeper.session._driver = None
    boot.keeper._session_lost(LinkDown("forgotten"))
    boot.turn_until(lambda: host.board[Word.TRUSTED_UNTIL] > boottime_ns() + 20 * S)
    assert host.id == host_id
    # A session that ends gives its lock back a moment before it can no longer be seen.
    until(lambda: not queue.rows("select from pg_stat_activity where pid = %s", lingering.info.backend_pid))
    lingering.close()


def test_the_end_of_the_session_cuts_the_trust_until_the_lock_is_held_again(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    renewed_at = boot.keeper.lease.renewed_at
    queue.kill_backend(boot.backend_pid())
    boot.turn_until(lambda: not boot.keeper.session.is_up)
    boot.keeper.turn()
    if not boot.keeper.session.is_up:
        assert host.board[Word.TRUSTED_UNTIL] == renewed_at + 5 * S
    boot.turn_until(lambda: host.board[Word.TRUSTED_UNTIL] > boottime_ns() + 20 * S)
    assert len(boot.heard(Ready)) == 1, "a quick reconnect is nobody's business"


@pytest.mark.parametrize("in_order", [True, False])
def test_a_dead_keeper_is_trusted_as_long_as_others_do_without_its_lock(host: Host, in_order: bool) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    if in_order:
        boot.keeper.lease.session_ended()
    house: Any = SimpleNamespace(board=host.board, drain=SimpleNamespace(stopping=False))
    cap_trust(house)
    renewed_at = boot.keeper.lease.renewed_at
    assert host.board.lease_trusted(renewed_at + 5 * S - 1)
    assert not host.board.lease_trusted(renewed_at + 5 * S)


def test_a_host_judged_dead_says_so_and_takes_a_new_id(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    old = host.id
    queue.conn.execute("delete from stoker.hosts")
    boot.until_said(HostLost)
    boot.turn_until(lambda: host.id not in (0, old))
    assert queue.one("select id from stoker.hosts") == host.id
    boot.turn_until(lambda: host.board[Word.TRUSTED_UNTIL] > boottime_ns() + 20 * S)
    assert len(boot.heard(HostLost)) == 1
