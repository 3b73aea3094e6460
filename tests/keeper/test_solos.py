"""Suspects on their way to a solo worker: marked by the death, told to the supervisor again and again."""

from collections.abc import Callable

import pytest

from stoker.drivers import holding
from stoker.drivers.base import Holder
from tests.keeper.rig import Boot, Host, Queue, death
from worker_proc.messages import Lane, Ready, Reaped, SuspectsWaiting


@pytest.fixture
def boot(make_host: Callable[..., Host]) -> Boot:
    boot = make_host(queues=("default", "default"), renew_every=0.05).boot()
    boot.until_said(Ready)
    return boot


def die(boot: Boot, queue: Queue, *, executing: int, claim_no: int = 7) -> list[int]:
    """A child that held everything there is dies while it executes the first ones."""
    runs = queue.claim(boot.host.id, claim_no)
    lanes = [Lane(run.id, run.run_no, "suspect") for run in runs[:executing]]
    before = len(boot.heard(Reaped))
    boot.keeper.on_message(death(claim_no, "crash", *lanes))
    boot.turn_until(lambda: len(boot.heard(Reaped)) > before)
    return [run.id for run in runs]


def told(boot: Boot) -> list[list[str]]:
    return [message.queues for message in boot.heard(SuspectsWaiting)]


def test_all_that_executed_are_suspects_uncounted_and_the_supervisor_hears_of_it(boot: Boot, queue: Queue) -> None:
    queue.add(4)
    jobs = die(boot, queue, executing=3)
    views = [queue.view(job) for job in jobs]
    assert [(view.state, view.attempt, view.crashes) for view in views] == [("ready", 0, 0)] * 4
    assert [view.suspect for view in views] == [True, True, True, False]
    assert [len(view.attempts) for view in views] == [1, 1, 1, 0]
    boot.turn_until(lambda: ["default"] in told(boot))


def test_one_that_was_alone_is_blamed_at_once(boot: Boot, queue: Queue) -> None:
    queue.add(2)
    job, reserved = die(boot, queue, executing=1)
    assert (queue.view(job).crashes, queue.view(job).suspect) == (1, False)
    assert (queue.view(reserved).crashes, queue.view(reserved).attempt) == (0, 0)
    boot.turn_for(0.1)
    assert told(boot) == []


def test_others_whose_end_was_written_do_not_count_as_neighbours(boot: Boot, queue: Queue) -> None:
    """A lane that executes nothing names what it executed last."""
    queue.add(2)
    ended, executing = queue.claim(boot.host.id, 7)
    queue.settle(ended, "completed")
    lanes = [Lane(ended.id, ended.run_no, "suspect", ended=True), Lane(executing.id, executing.run_no, "suspect")]
    boot.keeper.on_message(death(7, "crash", *lanes))
    boot.turn_until(lambda: boot.heard(Reaped))
    assert queue.view(executing.id).crashes == 1
    assert queue.state(ended.id) == "done"
    assert queue.one("select count(*) from stoker.suspects") == 0


def test_a_death_alone_counts_and_the_supervisor_hears_again(boot: Boot, queue: Queue) -> None:
    queue.add(2)
    jobs = die(boot, queue, executing=2)
    (run,) = queue.driver.run(holding.claim_suspect("default", Holder(boot.host.id, 8)))
    boot.keeper.on_message(death(8, "crash", Lane(run.id, run.run_no, "blamed")))
    boot.turn_until(lambda: len(boot.heard(Reaped)) == 2)
    view = queue.view(jobs[0])
    assert (view.crashes, view.attempt, view.suspect) == (1, 1, True)
    assert [attempt["outcome"] for attempt in view.attempts] == ["suspected", "retried"]
    before = len(told(boot))
    boot.turn_until(lambda: len(told(boot)) > before)


def test_every_keeper_finds_them_and_none_those_of_queues_it_does_not_serve(
    make_host: Callable[..., Host], boot: Boot, queue: Queue
) -> None:
    queue.add(2)
    die(boot, queue, executing=2)
    boot.close()
    other = make_host("b", queues=("mail",)).boot()
    third = make_host("c", queues=("mail", "default")).boot()
    third.turn_until(lambda: told(third))
    assert told(third)[0] == ["default"]
    other.until_said(Ready)
    other.turn_for(0.1)
    assert told(other) == []


def test_nothing_is_said_when_all_have_ended(boot: Boot, queue: Queue) -> None:
    queue.add(2)
    for job in die(boot, queue, executing=2):
        assert queue.driver.cancel(job, "enough") == "cancelled"
    boot.turn_for(0.1)
    before = len(told(boot))
    boot.keeper.solos.hear()
    boot.turn_for(0.1)
    assert len(told(boot)) == before
