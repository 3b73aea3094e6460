"""What an application's tests can do without processes and without a database."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import stoker
from stoker import Ctx, Retry, job, preload
from stoker.errors import (
    DatabaseNotGiven,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobNotRetryable,
    JobUnknown,
    WaitTimeout,
)
from stoker.testing import FakeClock, MemoryQueue, memory, run_jobs, run_jobs_async


@pytest.fixture
def queue() -> Any:
    with memory() as made:
        yield made


def outcomes(**options: Any) -> list[str]:
    return [ran.outcome for ran in run_jobs(**options)]


def test_jobs_run_in_order_and_results_are_kept(queue: MemoryQueue) -> None:
    @job
    def double(payload: dict[str, Any], ctx: Ctx) -> int:
        return int(payload["n"]) * 2

    @job
    async def triple(payload: dict[str, Any]) -> int:
        await asyncio.sleep(0)
        return int(payload["n"]) * 3

    ids = [double.enqueue({"n": 1}), triple.enqueue({"n": 1}), double.enqueue({"n": 5}, priority=-1)]
    ran = run_jobs()
    assert [(one.job_id, one.name, one.attempt, one.outcome, one.value) for one in ran] == [
        (ids[2], "double", 1, "completed", 10),
        (ids[0], "double", 1, "completed", 2),
        (ids[1], "triple", 1, "completed", 3),
    ]
    assert [stoker.result(job_id) for job_id in ids] == [2, 3, 10]
    assert run_jobs() == []


def test_preload_hooks_run_once_before_the_first_job(queue: MemoryQueue) -> None:
    table: list[str] = []

    @preload
    def fill() -> None:
        table.append("row")

    @job
    def read(payload: dict[str, Any]) -> list[str]:
        return list(table)

    for _ in range(2):
        read.enqueue({})
        [ran] = run_jobs()
        assert ran.value == ["row"]


def test_jobs_that_enqueue_jobs(queue: MemoryQueue) -> None:
    @job
    def chain(payload: dict[str, Any]) -> None:
        if payload["n"]:
            chain.enqueue({"n": payload["n"] - 1}, queue=f"q{payload['n']}")

    chain.enqueue({"n": 3})
    assert outcomes(until_empty=False) == ["completed"]
    assert outcomes() == ["completed"] * 3


def test_one_queue_at_a_time(queue: MemoryQueue) -> None:
    @job
    def work(payload: dict[str, Any]) -> None: ...

    work.enqueue({}, queue="a")
    work.enqueue({}, queue="b")
    assert outcomes(queue="a") == ["completed"]
    assert [view.queue for view in queue.jobs(queue=None, name=None, state=["ready"], limit=9, before=None)] == ["b"]


def test_delays_pass_when_the_clock_is_turned(queue: MemoryQueue) -> None:
    @job
    def work(payload: dict[str, Any]) -> None: ...

    work.enqueue({}, delay="1h")
    assert outcomes() == []
    queue.clock.advance("59m")
    assert outcomes() == []
    queue.clock.advance(timedelta(minutes=1))
    assert outcomes() == ["completed"]


def test_every_retry_happens_when_time_passes(queue: MemoryQueue) -> None:
    @job(retry=Retry(attempts=3))
    def flaky(payload: dict[str, Any], ctx: Ctx) -> int:
        if ctx.attempt < payload["good"]:
            raise ValueError(f"attempt {ctx.attempt}")
        return ctx.attempt

    first, second = flaky.enqueue({"good": 3}), flaky.enqueue({"good": 9})
    started = queue.clock.now
    assert sorted(outcomes(advance_time=True)) == ["completed", "dead_lettered", *["retried"] * 4]
    assert queue.clock.now > started
    assert stoker.result(first) == 3
    with pytest.raises(JobFailed, match="ValueError: attempt 3") as caught:
        stoker.result(second)
    assert caught.value.error["code"] == "STOKER_JOB_MAX_ATTEMPTS"
    view = stoker.get(second)
    assert view is not None and [one["attempt"] for one in view.attempts] == [1, 2, 3]


def test_a_dead_job_can_be_retried(queue: MemoryQueue) -> None:
    @job(retry=Retry(attempts=1))
    def work(payload: dict[str, Any]) -> None:
        raise ValueError("no")

    job_id = work.enqueue({})
    assert outcomes() == ["dead_lettered"]
    assert stoker.retry(job_id) == job_id
    assert outcomes() == ["dead_lettered"]


def test_cancelled_jobs_do_not_run(queue: MemoryQueue) -> None:
    @job
    def work(payload: dict[str, Any]) -> None: ...

    job_id = work.enqueue({})
    assert stoker.cancel(job_id, "no need") == "cancelled"
    assert outcomes() == []
    with pytest.raises(JobCancelled, match="no need"):
        stoker.result(job_id)


def test_a_job_that_is_cancelled_while_it_runs(queue: MemoryQueue) -> None:
    @job
    def work(payload: dict[str, Any], ctx: Ctx) -> None:
        assert stoker.cancel(ctx.job_id, "from inside") == "requested"
        if payload["stops"]:
            raise ValueError("stopped")

    ids = [work.enqueue({"stops": True}), work.enqueue({"stops": False})]
    assert outcomes() == ["cancelled", "completed"]
    with pytest.raises(JobCancelled):
        stoker.result(ids[0])


def test_a_key_that_is_taken(queue: MemoryQueue) -> None:
    @job(idempotency_key=lambda p: p["k"])
    def work(payload: dict[str, Any]) -> None: ...

    assert work.enqueue({"k": "a"}) == work.enqueue({"k": "a"})
    assert work.enqueue_many([{"k": "b"}, {"k": "b"}, {"k": "c"}]) == [2, 2, 3]
    assert outcomes() == ["completed"] * 3


def test_by_name(queue: MemoryQueue) -> None:
    @job(name="reports.render")
    def work(payload: dict[str, Any]) -> Any:
        return payload

    assert stoker.wait(_ran(stoker.enqueue("reports.render", {"n": 1})), timeout=1) == {"n": 1}
    assert len(stoker.enqueue_many("reports.render", [{}, {}])) == 2
    with pytest.raises(JobUnknown, match=r"Did you mean 'reports\.render'"):
        stoker.enqueue("report.render", {})


def _ran(job_id: int) -> int:
    run_jobs()
    return job_id


def test_waiting_gives_up(queue: MemoryQueue) -> None:
    @job
    def work(payload: dict[str, Any]) -> None: ...

    job_id = work.enqueue({})
    assert stoker.result(job_id) is None
    with pytest.raises(WaitTimeout, match="ready"):
        stoker.wait(job_id, timeout=0.03)
    with pytest.raises(WaitTimeout):
        stoker.wait(job_id, timeout=0)
    with pytest.raises(JobNotFound):
        stoker.wait(999, timeout=1)


def test_only_what_ended_badly_is_retried(queue: MemoryQueue) -> None:
    @job
    def work(payload: dict[str, Any]) -> None: ...

    job_id = work.enqueue({})
    with pytest.raises(JobNotRetryable, match="it is ready"):
        stoker.retry(job_id)
    run_jobs()
    with pytest.raises(JobNotRetryable, match="it is done"):
        asyncio.run(stoker.retry_async(job_id))


@pytest.mark.parametrize("job_id", [999, -1, 2**63, "7", None, True])
def test_no_such_job(queue: MemoryQueue, job_id: Any) -> None:
    for ask in (stoker.result, stoker.wait, stoker.cancel, stoker.retry):
        with pytest.raises(JobNotFound):
            ask(job_id)


def test_the_async_twins(queue: MemoryQueue) -> None:
    @job
    async def work(payload: dict[str, Any]) -> Any:
        return payload["n"]

    async def scenario() -> Any:
        first = await work.enqueue_async({"n": 1})
        others = await work.enqueue_many_async([{"n": 2}, {"n": 3}])
        by_name = await stoker.enqueue_async("work", {"n": 4})
        delayed = await work.enqueue_async({}, delay=60)
        assert await stoker.cancel_async(delayed, "no") == "cancelled"
        assert await stoker.retry_async(delayed) == delayed
        assert await stoker.cancel_async(delayed) == "cancelled"
        assert len(await run_jobs_async()) == 4
        view = await stoker.get_async(first)
        assert view is not None and view.state == "done"
        return [await stoker.wait_async(job_id, timeout=1) for job_id in (first, *others)], await stoker.result_async(
            by_name
        )

    assert asyncio.run(scenario()) == ([1, 2, 3], 4)


def test_many_payloads_cannot_share_a_key(queue: MemoryQueue) -> None:
    @job
    def work(payload: dict[str, Any]) -> None: ...

    with pytest.raises(stoker.StokerError, match="cannot share one key"):
        work.enqueue_many([{}, {}], idempotency_key="k")
    assert work.enqueue_many([{"k": 1}, {"k": 2}], idempotency_key=lambda p: str(p["k"])) == [1, 2]
    assert work.enqueue_many([]) == []


def test_endless_jobs_are_noticed(queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.inline.MOST_RUNS", 20)

    @job
    def again(payload: dict[str, Any]) -> None:
        again.enqueue({})

    again.enqueue({})
    with pytest.raises(RuntimeError, match="enqueue itself"):
        run_jobs()


def test_memory_ends_with_its_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    @job
    def work(payload: dict[str, Any]) -> None: ...

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOKER_PG_ROOT", str(tmp_path))
    stoker.configure()
    with memory() as outer:
        work.enqueue({})
        with memory() as inner:
            work.enqueue({})
            assert len(run_jobs()) == 1
        assert inner.job(1) is not None and outer.job(1) is not None
        assert len(run_jobs()) == 1
    with pytest.raises(DatabaseNotGiven, match="stoker pg start"):
        work.enqueue({})
    with pytest.raises(RuntimeError, match="memory"):
        run_jobs()


def test_a_clock_that_only_moves_when_told() -> None:
    clock = FakeClock()
    before = clock()
    assert clock() == before
    clock.advance("1d")
    assert clock() - before == timedelta(days=1)
