"""Queue depths for the metrics."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.keeper.rig import Host, Queue
from worker_proc import singleton
from worker_proc.link import Link
from worker_proc.messages import Gauges, QueueGauge
from worker_proc.sampling import EVERY_S, Sampling


@pytest.fixture
def link(host: Host, database_url: str) -> Iterator[Link]:
    link = Link(host.boot().control, url=database_url, name="work", keeping=None, prepare=lambda conn: None)  # type: ignore[arg-type]
    link.open()
    yield link
    link.drop()


@pytest.fixture
def sample(link: Link) -> Callable[..., dict[str, QueueGauge]]:
    """Runs one sampling with this keeper's queues and returns what it published."""

    def run(*queues: str, cost: float = 30.0) -> dict[str, QueueGauge]:
        published: list[Gauges] = []
        Sampling(link, queues=queues, publish=published.append, cost=cost).run()
        return {gauge.queue: gauge for gauge in published[-1].queues}

    return run


Sample = Callable[..., dict[str, QueueGauge]]


def test_a_sample_counts_states_age_and_dead(sample: Sample, queue: Queue) -> None:
    queue.add(3)
    queue.add(2, delay=60)
    (dead,) = queue.add(queue="mail")
    (run,) = queue.claim(1, 1, queue="mail")
    queue.settle(run, "dead_lettered", error={"type": "X"})
    queue.claim(1, 1, 1)
    queue.conn.execute("update stoker.jobs set created_at = created_at - interval '90 s' where state = 'ready'")
    gauges = sample("default", "empty")
    depth = {"ready": 2, "delayed": 2, "running": 1, "suspended": 0, "blocked": 0}
    assert gauges["default"].depth == depth
    assert 90 <= gauges["default"].oldest_ready_s < 100
    assert (gauges["mail"].dead, gauges["mail"].oldest_ready_s) == (1, 0.0)
    assert gauges["empty"] == QueueGauge("empty", dict.fromkeys(depth, 0), 0.0, 0)
    assert queue.state(dead) == "dead"


def test_a_promoted_job_is_as_old_as_its_due_time(sample: Sample, queue: Queue) -> None:
    queue.fill(1, state="delayed", due_in="-5 s")
    queue.conn.execute("update stoker.jobs set created_at = created_at - interval '1 day'")
    queue.driver.promote_due(10)
    assert 5 <= sample("default")["default"].oldest_ready_s < 15


def test_an_emptied_queue_is_empty_in_the_next_sample(sample: Sample, queue: Queue) -> None:
    queue.add(2)
    assert sample("default")["default"].depth["ready"] == 2
    queue.conn.execute("delete from stoker.jobs")
    queue.conn.execute("update stoker.queues set sampled_at = now() - interval '1 minute'")
    assert sample("default")["default"].depth["ready"] == 0


def test_a_fresh_sample_of_another_keeper_is_read_and_not_made_again(sample: Sample, queue: Queue) -> None:
    queue.conn.execute("insert into stoker.queues (queue, depth) values ('theirs', '{\"ready\": 7}')")
    queue.add(2)
    assert set(sample("default")) == {"theirs"}


def test_the_sample_of_a_long_table_is_good_for_longer(sample: Sample, queue: Queue) -> None:
    queue.add(2)
    sample("default")
    queue.conn.execute("delete from stoker.jobs")
    queue.conn.execute("update stoker.queues set sampled_at = now() - interval '40 s'")
    queue.conn.execute("update pg_class set reltuples = 1e6 where oid = 'stoker.jobs'::regclass")
    assert sample("default")["default"].depth["ready"] == 2
    queue.conn.execute("update pg_class set reltuples = 1e5 where oid = 'stoker.jobs'::regclass")
    assert sample("default")["default"].depth["ready"] == 0


def test_while_another_keeper_samples_the_old_one_is_read(sample: Sample, queue: Queue) -> None:
    queue.rows("select pg_advisory_lock(%s)", singleton.SAMPLING)
    queue.add()
    assert sample("default") == {}
    queue.rows("select pg_advisory_unlock_all()")
    assert set(sample("default")) == {"default"}


def test_a_sample_that_costs_too_much_is_given_up_and_the_old_one_stays(
    link: Link, queue: Queue, database_url: str
) -> None:
    published: list[Gauges] = []
    sampling = Sampling(link, queues=["default"], publish=published.append, cost=30.0)
    queue.add()
    sampling.run()
    queue.conn.execute("update stoker.queues set sampled_at = now() - interval '1 minute'")
    with psycopg.connect(database_url) as blocker:
        blocker.execute("lock table stoker.jobs in access exclusive mode")
        sampling._cost = 0.2
        sampling.run()
    sampling._cost = 30.0
    assert published[1].queues[0].depth == published[0].queues[0].depth
    assert sampling._every == 2 * EVERY_S
    queue.add()
    sampling.run()
    assert published[2].queues[0].depth["ready"] == 2 and sampling._every == EVERY_S


def test_gauges_come_right_after_the_start(make_host: Callable[..., Host], queue: Queue) -> None:
    queue.add(4)
    boot = make_host("b").boot()
    gauges = boot.until_said(Gauges)
    assert [(gauge.queue, gauge.depth["ready"]) for gauge in gauges.queues] == [("default", 4)]
