"""Cancel requests on their way to the process that runs the job."""

import time
from collections.abc import Callable

import pytest

from tests.keeper.rig import Boot, Host, Queue
from tests.support import until
from worker_proc import cancelling
from worker_proc.messages import CancelRequested, Ready


def test_a_request_is_told_at_once(host: Host, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    # Who is not told would find it after a minute.
    monkeypatch.setattr(cancelling, "EVERY_S", 60.0)
    boot = host.boot()
    boot.until_said(Ready)
    (job_id,) = queue.add()
    queue.claim(host.id, 7)
    boot.turn_for(0.1)
    assert queue.driver.cancel(job_id, "no longer wanted") == "requested"
    boot.turn_until(lambda: boot.heard(CancelRequested), within=30)


def test_a_request_for_a_job_that_runs_here_is_told_until_it_has_ended(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    (job_id,) = queue.add()
    (run,) = queue.claim(host.id, 7)
    assert queue.driver.cancel(job_id, "no longer wanted") == "requested"
    boot.turn_until(lambda: len(boot.heard(CancelRequested)) >= 2)
    assert set(boot.heard(CancelRequested)) == {CancelRequested(job_id, "no longer wanted")}
    queue.settle(run, "cancelled")
    assert queue.one("select count(*) from stoker.cancels") == 0
    said = len(boot.heard(CancelRequested))
    boot.turn_for(1.2)
    assert len(boot.heard(CancelRequested)) == said


def test_a_request_without_a_notification_is_found_within_a_second(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    (job_id,) = queue.add()
    queue.claim(host.id, 7)
    queue.conn.execute("insert into stoker.cancels (job_id) values (%s)", (job_id,))
    boot.turn_until(lambda: boot.heard(CancelRequested) != [])


def test_a_request_for_a_locked_job_is_told_and_seen_to_once_a_second(host: Host, queue: Queue, rival: Queue) -> None:
    """Whose lane has it is not in the database; and what the keeper does about it must not wake the keeper."""
    boot = host.boot()
    boot.until_said(Ready)
    (job_id,) = queue.add()
    began = time.monotonic()
    with rival.conn.transaction():
        rival.rows("select from stoker.jobs for no key update")
        assert queue.driver.cancel(job_id, "no longer wanted") == "requested"
        boot.until_said(CancelRequested)
        boot.turn_for(1.0)
        assert set(boot.heard(CancelRequested)) == {CancelRequested(job_id, "no longer wanted")}
        assert len(boot.heard(CancelRequested)) <= 3 + (time.monotonic() - began) / cancelling.EVERY_S
    boot.turn_until(lambda: queue.state(job_id) == "cancelled")


def test_a_request_for_a_job_of_another_host_is_left_to_it(make_host: Callable[..., Host], queue: Queue) -> None:
    here, there = make_host("here"), make_host("there")
    boot, other = here.boot(), there.boot()
    boot.until_said(Ready)
    other.until_said(Ready)
    (job_id,) = queue.add()
    queue.claim(there.id, 7)
    queue.driver.cancel(job_id, "")
    boot.turn_for(1.2)
    assert not boot.heard(CancelRequested)
    other.until_said(CancelRequested)


def test_a_request_whose_job_waits_again_cancels_it(host: Host, queue: Queue) -> None:
    (job_id,) = queue.add()
    queue.conn.execute("insert into stoker.cancels (job_id, reason) values (%s, 'late')", (job_id,))
    host.boot().turn_until(lambda: queue.state(job_id) == "cancelled")
    assert queue.view(job_id).error["message"] == "late"
    assert queue.one("select count(*) from stoker.cancels") == 0


def test_a_request_whose_job_is_gone_is_forgotten(host: Host, queue: Queue) -> None:
    queue.conn.execute("insert into stoker.cancels (job_id) values (1), (2)")
    boot = host.boot()
    boot.turn_until(lambda: queue.one("select count(*) from stoker.cancels") == 0)
    assert not boot.heard(CancelRequested)


def test_thousands_of_requests_fill_no_pipe_and_stop_no_other_duty(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    queue.fill(3000)
    queue.claim(host.id, 7, 3000)
    queue.conn.execute("insert into stoker.cancels (job_id) select id from stoker.jobs")
    # The supervisor does not read for a while.
    renewals = queue.one("select renewals from stoker.hosts")
    until(lambda: _turn_deafly(boot) and queue.one("select renewals from stoker.hosts") >= renewals + 3)
    asked = {one.job_id for one in boot.heard(CancelRequested)}
    assert asked and len(boot.said) < 3000


def _turn_deafly(boot: Boot) -> bool:
    boot.keeper.wait(min(0.1, boot.keeper.turn()))
    return True


def test_garbage_on_the_channel_is_no_trouble(host: Host, queue: Queue) -> None:
    boot = host.boot()
    boot.until_said(Ready)
    for text in ("", "x", "1" * 40, "-5"):
        queue.rows("select pg_notify('stoker_cancel', %s)", text)
    (job_id,) = queue.add()
    queue.claim(host.id, 7)
    queue.driver.cancel(job_id, "")
    assert boot.until_said(CancelRequested).job_id == job_id
