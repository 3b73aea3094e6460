"""What every queue driver promises."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.drivers.base import Claimed, Driver, Enqueued, Holder, JobView, NewJob, OnConflict, Outcome, Settlement
from stoker.errors import JobDuplicate, JobNotCancellable, JobNotFound
from tests.support import scaled, until

ME = Holder(host=7, claim_no=3)
LetPass = Callable[[timedelta], None]


def new(name: str = "send", queue: str = "mail", payload: str = '{"n":1}', **options: Any) -> NewJob:
    return NewJob(name=name, queue=queue, payload=payload, **options)


def put(driver: Driver, **options: Any) -> int:
    return driver.enqueue([new(**options)])[0].id


def take(driver: Driver, queue: str = "mail", limit: int = 10) -> list[Claimed]:
    return driver.claim(queue, limit, ME)


def ending(claimed: Claimed, outcome: Outcome, **facts: Any) -> Settlement:
    return Settlement(job_id=claimed.id, run_no=claimed.run_no, outcome=outcome, **facts)


def seen(driver: Driver, job_id: int) -> JobView:
    view = driver.job(job_id)
    assert view is not None
    return view


def run_to(driver: Driver, outcome: Outcome, **options: Any) -> int:
    """Enqueue a job and let its first run end like this."""
    job_id = put(driver, **options)
    (claimed,) = take(driver)
    driver.settle([ending(claimed, outcome, error={"type": "Boom", "message": "no"})])
    return job_id


# enqueue


def test_a_new_job_is_ready_and_shows_what_was_given(driver: Driver) -> None:
    job_id = put(driver, priority=-5, tenant="acme", idempotency_key="k", max_attempts=3)
    view = seen(driver, job_id)
    assert (view.state, view.name, view.queue, view.payload) == ("ready", "send", "mail", {"n": 1})
    assert (view.priority, view.tenant, view.idempotency_key, view.max_attempts) == (-5, "acme", "k", 3)
    assert (view.attempt, view.run_no, view.run_at, view.started_at, view.finished_at) == (0, 0, None, None, None)
    assert (view.error, view.result, view.attempts) == (None, None, [])
    assert abs(view.created_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_many_jobs_get_their_ids_in_order(driver: Driver) -> None:
    stored = driver.enqueue([new(payload=f'{{"n":{n}}}') for n in range(50)])
    assert all(one.created for one in stored)
    assert [seen(driver, one.id).payload for one in stored] == [{"n": n} for n in range(50)]
    assert [claimed.id for claimed in take(driver, limit=50)] == [one.id for one in stored]


def test_many_jobs_may_be_of_different_kinds(driver: Driver) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    kinds = [new(), new(queue="other", delay=60.0), new(run_at=later, idempotency_key="a"), new(idempotency_key="a")]
    stored = driver.enqueue(kinds)
    assert [one.created for one in stored] == [True, True, True, False]
    assert stored[3].id == stored[2].id
    assert [seen(driver, one.id).state for one in stored[:3]] == ["ready", "delayed", "delayed"]


def test_nothing_to_enqueue_is_fine(driver: Driver) -> None:
    assert driver.enqueue([]) == []


def test_text_of_all_kinds_survives(driver: Driver) -> None:
    text = 'ä€🙂\\"\\\\\\t\u2028'
    job_id = put(driver, payload=f'{{"t":"{text}"}}', tenant="日本'%s", idempotency_key="a'b\"c%s")
    view = seen(driver, job_id)
    assert view.payload == {"t": 'ä€🙂"\\\t\u2028'}
    assert (view.tenant, view.idempotency_key) == ("日本'%s", "a'b\"c%s")


# idempotency keys


@pytest.mark.parametrize("state", ["ready", "delayed", "running"])
def test_dedupe_returns_the_live_job_and_changes_nothing(driver: Driver, state: str) -> None:
    first = put(driver, idempotency_key="k", delay=60.0 if state == "delayed" else None)
    if state == "running":
        take(driver)
    again = driver.enqueue([new(payload='{"n":2}', idempotency_key="k")])
    assert again == [Enqueued(first, False)]
    assert (seen(driver, first).payload, seen(driver, first).state) == ({"n": 1}, state)


def test_error_names_the_live_job(driver: Driver) -> None:
    first = put(driver, idempotency_key="k", tenant="t")
    with pytest.raises(JobDuplicate) as caught:
        put(driver, idempotency_key="k", tenant="t", on_conflict="error")
    assert caught.value.job_id == first
    assert "'k'" in str(caught.value)


def test_error_in_a_batch_stores_none_of_it(driver: Driver) -> None:
    put(driver, idempotency_key="k")
    with pytest.raises(JobDuplicate):
        driver.enqueue([new(), new(idempotency_key="k", on_conflict="error")])
    assert len(driver.jobs(queue=None, name=None, state=[], limit=10, before=None)) == 1


def test_replace_updates_a_waiting_job(driver: Driver) -> None:
    first = put(driver, idempotency_key="k", delay=60.0)
    changed = new(payload='{"n":2}', queue="other", priority=4, max_attempts=2, idempotency_key="k")
    assert driver.enqueue([new(**{**_facts(changed), "on_conflict": "replace"})]) == [Enqueued(first, False)]
    view = seen(driver, first)
    assert (view.payload, view.queue, view.priority, view.max_attempts) == ({"n": 2}, "other", 4, 2)
    assert (view.state, view.run_at) == ("ready", None)


def test_replace_leaves_a_running_job_alone(driver: Driver) -> None:
    first = put(driver, idempotency_key="k")
    take(driver)
    assert driver.enqueue([new(payload='{"n":2}', idempotency_key="k", on_conflict="replace")])[0].id == first
    assert (seen(driver, first).state, seen(driver, first).payload) == ("running", {"n": 1})


def test_a_key_belongs_to_its_name_and_tenant(driver: Driver) -> None:
    ids = {
        put(driver, idempotency_key="k"),
        put(driver, idempotency_key="k", name="other"),
        put(driver, idempotency_key="k", tenant="t"),
        put(driver, idempotency_key="other"),
    }
    assert len(ids) == 4


def test_a_key_is_free_again_when_its_job_has_ended(driver: Driver) -> None:
    first = run_to(driver, "completed", idempotency_key="k")
    assert driver.enqueue([new(idempotency_key="k")])[0].created
    assert seen(driver, first).state == "done"


def test_many_keys_in_one_batch_create_one_job_each(driver: Driver) -> None:
    stored = driver.enqueue([new(idempotency_key=str(n % 5)) for n in range(25)])
    assert len({one.id for one in stored}) == 5
    assert sum(one.created for one in stored) == 5


def test_the_last_replacement_in_a_batch_stays(driver: Driver) -> None:
    first = put(driver, idempotency_key="a")
    jobs = [
        new(payload=f'{{"n":{n}}}', idempotency_key=key, on_conflict="replace") for n, key in enumerate(("a", "b") * 3)
    ]
    stored = driver.enqueue(jobs)
    assert [one.created for one in stored] == [False, True, False, False, False, False]
    assert [one.id for one in stored] == [first, stored[1].id] * 3
    assert (seen(driver, first).payload, seen(driver, stored[1].id).payload) == ({"n": 4}, {"n": 5})


def test_the_first_of_a_key_in_a_batch_stays_without_replacement(driver: Driver) -> None:
    stored = driver.enqueue([new(payload=f'{{"n":{n}}}', idempotency_key="k") for n in range(3)])
    assert stored == [Enqueued(stored[0].id, True), Enqueued(stored[0].id, False), Enqueued(stored[0].id, False)]
    assert seen(driver, stored[0].id).payload == {"n": 0}


def test_rules_may_differ_within_a_batch(driver: Driver) -> None:
    rules: list[OnConflict] = ["error", "dedupe", "replace"]
    stored = driver.enqueue(
        [new(payload=f'{{"n":{n}}}', idempotency_key="k", on_conflict=rule) for n, rule in enumerate(rules)]
    )
    assert [one.created for one in stored] == [True, False, False]
    assert seen(driver, stored[0].id).payload == {"n": 2}


@pytest.mark.parametrize("others", [0, 60])
def test_a_key_twice_in_a_batch_is_an_error_if_asked_for(driver: Driver, others: int) -> None:
    jobs = [new() for _ in range(others)] + [new(idempotency_key="k", on_conflict="error") for _ in range(2)]
    with pytest.raises(JobDuplicate):
        driver.enqueue(jobs)
    assert driver.jobs(queue=None, name=None, state=[], limit=10, before=None) == []


def test_very_many_jobs_in_one_call(driver: Driver) -> None:
    count = scaled(3_000, 100_000)
    stored = driver.enqueue([new(payload=f'{{"n":{n}}}') for n in range(count)])
    assert [one.id for one in stored] == sorted({one.id for one in stored})
    assert len(stored) == count
    assert [seen(driver, stored[at].id).payload["n"] for at in (0, 1, count // 2, -1)] == [0, 1, count // 2, count - 1]


def test_very_many_keys_in_one_call_twice(driver: Driver) -> None:
    count = scaled(1_000, 100_000)
    jobs = [new(payload=f'{{"n":{n}}}', idempotency_key=f"k{n}") for n in range(count)]
    first, again = driver.enqueue(jobs), driver.enqueue(list(reversed(jobs)))
    assert all(one.created for one in first)
    assert [one.id for one in first] == sorted({one.id for one in first})
    assert again == [Enqueued(one.id, False) for one in reversed(first)]


# delays


def test_very_many_jobs_of_one_call_may_wait(driver: Driver) -> None:
    stored = driver.enqueue([new(delay=float(n % 2)) for n in range(200)])
    assert [seen(driver, one.id).state for one in stored[:2]] == ["ready", "delayed"]
    assert [claimed.id for claimed in take(driver, limit=200)] == [one.id for one in stored[::2]]


def test_a_delayed_job_is_not_claimed_before_it_is_due(driver: Driver) -> None:
    job_id = put(driver, delay=0.05)
    assert seen(driver, job_id).state == "delayed"
    assert take(driver) == []
    until(lambda: driver.promote_due(10))
    assert [claimed.id for claimed in take(driver)] == [job_id]
    assert seen(driver, job_id).run_at is None


def test_only_what_is_due_is_promoted(driver: Driver) -> None:
    put(driver, delay=3600.0)
    put(driver, run_at=datetime.now(UTC) + timedelta(hours=1))
    assert driver.promote_due(10) == 0


def test_no_more_than_the_limit_is_promoted_earliest_first(driver: Driver, let_pass: LetPass) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    ids = [put(driver, run_at=soon - timedelta(milliseconds=early)) for early in (0, 1, 2)]
    assert driver.promote_due(2) == 0
    let_pass(timedelta(hours=1))
    assert driver.promote_due(2) == 2
    assert [claimed.id for claimed in take(driver)] == [ids[2], ids[1]]


def test_jobs_that_are_promoted_together_run_in_the_order_of_their_times(driver: Driver, let_pass: LetPass) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    early = driver.enqueue([new(run_at=soon - timedelta(milliseconds=ms)) for ms in range(300)])
    let_pass(timedelta(hours=1))
    assert (driver.promote_due(1000), driver.promote_due(1000)) == (300, 0)
    assert [claimed.id for claimed in take(driver, limit=300)] == [one.id for one in reversed(early)]


def test_a_time_in_the_past_is_now(driver: Driver) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    assert seen(driver, put(driver, run_at=past)).state == "ready"
    assert seen(driver, put(driver, delay=0.0)).state == "ready"


def test_run_at_keeps_its_instant(driver: Driver) -> None:
    when = datetime.now(UTC).replace(microsecond=123456) + timedelta(days=2)
    assert seen(driver, put(driver, run_at=when)).run_at == when


# claim


def test_claims_follow_priority_then_place(driver: Driver) -> None:
    low, first, second, urgent = (put(driver, priority=priority) for priority in (5, 0, 0, -1))
    assert [claimed.id for claimed in take(driver, limit=3)] == [urgent, first, second]
    assert [claimed.id for claimed in take(driver)] == [low]


def test_a_claim_tells_what_a_run_needs(driver: Driver) -> None:
    job_id = put(driver, tenant="t", priority=3, max_attempts=9)
    (claimed,) = take(driver)
    assert (claimed.id, claimed.run_no, claimed.attempt, claimed.max_attempts) == (job_id, 1, 1, 9)
    assert (claimed.queue, claimed.name, claimed.priority, claimed.tenant) == ("mail", "send", 3, "t")
    assert (claimed.crashes, claimed.put_off) == (0, 0)
    view = seen(driver, job_id)
    assert (view.state, view.attempt, view.run_no) == ("running", 1, 1)
    assert view.started_at is not None


def test_a_claimed_job_is_not_claimed_again(driver: Driver) -> None:
    put(driver)
    assert len(take(driver)) == 1
    assert take(driver) == []


def test_queues_are_apart(driver: Driver) -> None:
    put(driver, queue="other")
    assert take(driver) == []
    assert len(take(driver, "other")) == 1


# settle


def test_completed_keeps_the_result(driver: Driver) -> None:
    job_id = put(driver)
    (claimed,) = take(driver)
    (settled,) = driver.settle([ending(claimed, "completed", result='{"pages":[1,2]}')])
    assert (settled.job_id, settled.run_no, settled.state) == (job_id, 1, "done")
    view = seen(driver, job_id)
    assert (view.state, view.result, view.error, view.attempt) == ("done", {"pages": [1, 2]}, None, 1)
    assert view.finished_at is not None
    assert view.attempts == []


def test_completed_without_a_result(driver: Driver) -> None:
    job_id = put(driver)
    driver.settle([ending(take(driver)[0], "completed")])
    assert (seen(driver, job_id).state, seen(driver, job_id).result) == ("done", None)


def test_retried_waits_and_counts(driver: Driver) -> None:
    job_id = put(driver)
    (claimed,) = take(driver)
    (settled,) = driver.settle([ending(claimed, "retried", delay=60.0, error={"type": "Boom", "message": "no"})])
    assert settled.state == "delayed"
    view = seen(driver, job_id)
    assert (view.state, view.attempt, view.error) == ("delayed", 1, {"type": "Boom", "message": "no"})
    assert view.run_at is not None and timedelta(seconds=50) < view.run_at - datetime.now(UTC) < timedelta(seconds=70)


def test_retried_without_delay_is_ready_behind_the_others(driver: Driver) -> None:
    first, second = put(driver), put(driver)
    claimed = take(driver, limit=1)[0]
    assert driver.settle([ending(claimed, "retried", error={"type": "Boom"})])[0].state == "ready"
    assert [(one.id, one.attempt, one.run_no) for one in take(driver)] == [(second, 1, 1), (first, 2, 2)]


@pytest.mark.parametrize("outcome", ["interrupted", "handed_back"])
def test_uncounted_endings_keep_place_and_attempt(driver: Driver, outcome: Outcome) -> None:
    first, second = put(driver), put(driver)
    claimed = take(driver, limit=1)[0]
    assert driver.settle([ending(claimed, outcome)])[0].state == "ready"
    assert seen(driver, first).attempt == 0
    assert [(one.id, one.attempt, one.run_no) for one in take(driver)] == [(first, 1, 2), (second, 1, 1)]


def test_an_interruption_keeps_its_error(driver: Driver) -> None:
    job_id = run_to(driver, "interrupted")
    assert seen(driver, job_id).error == {"type": "Boom", "message": "no"}


def test_a_suspect_waits_uncounted_where_no_ordinary_claim_takes_it(driver: Driver) -> None:
    job_id = run_to(driver, "suspected")
    view = seen(driver, job_id)
    assert (view.state, view.attempt, view.suspect) == ("ready", 0, True)
    assert [attempt["outcome"] for attempt in view.attempts] == ["suspected"]
    other = put(driver)
    assert [one.id for one in take(driver)] == [other]
    assert not seen(driver, other).suspect


def test_a_suspect_that_waits_is_cancelled_at_once(driver: Driver) -> None:
    job_id = run_to(driver, "suspected")
    assert driver.cancel(job_id, "enough") == "cancelled"
    assert (seen(driver, job_id).state, seen(driver, job_id).suspect) == ("cancelled", False)
    assert driver.retry(job_id) == job_id
    assert [one.id for one in take(driver)] == [job_id]


def test_postponed_counts_itself_and_no_attempt(driver: Driver) -> None:
    job_id = put(driver)
    driver.settle([ending(take(driver)[0], "postponed", delay=0.01)])
    assert (seen(driver, job_id).state, seen(driver, job_id).attempt) == ("delayed", 0)
    until(lambda: driver.promote_due(10))
    (claimed,) = take(driver)
    assert (claimed.put_off, claimed.attempt) == (1, 1)
    driver.settle([ending(claimed, "retried")])
    assert take(driver)[0].put_off == 0


def test_dead_lettered_keeps_error_and_attempt(driver: Driver) -> None:
    job_id = run_to(driver, "dead_lettered")
    view = seen(driver, job_id)
    assert (view.state, view.error, view.attempt) == ("dead", {"type": "Boom", "message": "no"}, 1)


def test_cancelled_says_so(driver: Driver) -> None:
    job_id = put(driver)
    (claimed,) = take(driver)
    driver.cancel(job_id, "by hand")
    assert driver.settle([ending(claimed, "cancelled")])[0].state == "cancelled"
    assert seen(driver, job_id).error == {"type": "Cancelled", "message": "by hand", "code": "STOKER_ABORTED"}


def test_what_is_known_of_a_cancel_adds_to_who_asked_for_it(driver: Driver) -> None:
    job_id = put(driver)
    (claimed,) = take(driver)
    driver.cancel(job_id, "by hand")
    driver.settle([ending(claimed, "cancelled", error={"how": "cancel", "stack": "in work"})])
    view = seen(driver, job_id)
    said = {"type": "Cancelled", "message": "by hand", "code": "STOKER_ABORTED", "how": "cancel"}
    assert view.error == said
    assert view.attempts[0]["error"] == {**said, "stack": "in work"}


@pytest.mark.parametrize("outcome", ["retried", "dead_lettered", "interrupted"])
def test_stacks_are_kept_with_the_attempt_alone(driver: Driver, outcome: Outcome) -> None:
    job_id = put(driver)
    driver.settle([ending(take(driver)[0], outcome, error={"type": "JobTimeout", "stack": "in work"})])
    view = seen(driver, job_id)
    assert view.error == {"type": "JobTimeout"}
    assert view.attempts[0]["error"] == {"type": "JobTimeout", "stack": "in work"}


def test_attempts_that_did_not_succeed_are_kept(driver: Driver) -> None:
    job_id = put(driver)
    for number in (1, 2):
        claimed = take(driver)[0]
        driver.settle([ending(claimed, "retried", error={"message": f"no {number}"}, started_ago=1.5)])
    driver.settle([ending(take(driver)[0], "completed")])
    first, second = seen(driver, job_id).attempts
    assert [(one["run_no"], one["attempt"], one["outcome"]) for one in (first, second)] == [
        (1, 1, "retried"),
        (2, 2, "retried"),
    ]
    assert second["error"] == {"message": "no 2"}
    assert second["host"] == ME.host
    assert abs((second["ended_at"] - second["started_at"]).total_seconds() - 1.5) < 0.1


def test_only_the_last_attempts_are_kept(driver: Driver) -> None:
    job_id = put(driver, max_attempts=1000)
    for number in range(60):
        driver.settle([ending(take(driver)[0], "retried", error={"message": str(number)})])
    assert [one["error"]["message"] for one in seen(driver, job_id).attempts] == [str(n) for n in range(10, 60)]


def test_crashes_are_counted(driver: Driver) -> None:
    put(driver)
    driver.settle([ending(take(driver)[0], "retried", crashed=True)])
    assert take(driver)[0].crashes == 1


def test_many_endings_at_once(driver: Driver) -> None:
    for _ in range(6):
        put(driver)
    claimed = take(driver)
    outcomes: list[Outcome] = ["completed", "retried", "dead_lettered", "cancelled", "interrupted", "postponed"]
    given = [ending(one, outcome, delay=5.0) for one, outcome in zip(claimed, outcomes, strict=True)]
    states = {settled.job_id: settled.state for settled in driver.settle(given)}
    assert [states[one.id] for one in claimed][:4] == ["done", "delayed", "dead", "cancelled"]
    assert len(states) == 6


def test_settling_nothing_is_fine(driver: Driver) -> None:
    assert driver.settle([]) == []


# the fence


@pytest.mark.parametrize("outcome", ["completed", "retried", "dead_lettered", "cancelled", "interrupted"])
def test_an_old_run_writes_nothing(driver: Driver, outcome: Outcome) -> None:
    job_id = put(driver)
    (old,) = take(driver)
    driver.settle([ending(old, "interrupted")])
    (new_run,) = take(driver)
    assert new_run.run_no == old.run_no + 1
    assert driver.settle([ending(old, outcome, result='"late"', error={"message": "late"})]) == []
    view = seen(driver, job_id)
    assert (view.state, view.run_no, view.result, view.error, view.attempts) == ("running", 2, None, None, [])
    assert len(driver.settle([ending(new_run, "completed")])) == 1


def test_a_run_settles_once(driver: Driver) -> None:
    put(driver)
    (claimed,) = take(driver)
    assert len(driver.settle([ending(claimed, "completed")])) == 1
    assert driver.settle([ending(claimed, "completed")]) == []
    assert driver.settle([ending(claimed, "retried")]) == []


def test_a_fenced_run_stops_no_other(driver: Driver) -> None:
    put(driver)
    put(driver)
    lost, held = take(driver)
    driver.settle([ending(lost, "interrupted")])
    settled = driver.settle([ending(lost, "completed"), ending(held, "completed")])
    assert [one.job_id for one in settled] == [held.id]


# cancel


@pytest.mark.parametrize("delay", [None, 60.0])
def test_a_waiting_job_is_cancelled_at_once(driver: Driver, delay: float | None) -> None:
    job_id = put(driver, delay=delay, idempotency_key="k")
    assert driver.cancel(job_id, "changed my mind") == "cancelled"
    view = seen(driver, job_id)
    assert view.state == "cancelled"
    assert view.error == {"type": "Cancelled", "message": "changed my mind", "code": "STOKER_ABORTED"}
    assert take(driver) == []
    assert driver.enqueue([new(idempotency_key="k")])[0].created


def test_a_running_job_is_asked_to_end(driver: Driver) -> None:
    job_id = put(driver)
    take(driver)
    assert driver.cancel(job_id, "first") == "requested"
    assert driver.cancel(job_id, "second") == "requested"
    assert driver.cancel_requests([job_id, job_id + 1]) == {job_id: "first"}
    assert seen(driver, job_id).state == "running"


@pytest.mark.parametrize("outcome", ["retried", "interrupted", "postponed", "handed_back"])
def test_a_job_with_a_request_does_not_wait_again(driver: Driver, outcome: Outcome) -> None:
    job_id = put(driver)
    (claimed,) = take(driver)
    driver.cancel(job_id, "enough")
    assert driver.settle([ending(claimed, outcome, delay=1.0)])[0].state == "cancelled"
    assert driver.cancel_requests([job_id]) == {}
    assert (seen(driver, job_id).error or {})["message"] == "enough"


def test_a_run_that_returned_is_done_in_spite_of_a_request(driver: Driver) -> None:
    job_id = put(driver)
    (claimed,) = take(driver)
    driver.cancel(job_id, "too late")
    assert driver.settle([ending(claimed, "completed")])[0].state == "done"
    assert driver.cancel_requests([job_id]) == {}


@pytest.mark.parametrize("outcome", ["completed", "dead_lettered", "cancelled"])
def test_an_ended_job_cannot_be_cancelled(driver: Driver, outcome: Outcome) -> None:
    job_id = run_to(driver, outcome)
    with pytest.raises(JobNotCancellable) as caught:
        driver.cancel(job_id, "")
    assert caught.value.state == seen(driver, job_id).state


def test_no_job_can_be_cancelled(driver: Driver) -> None:
    with pytest.raises(JobNotFound):
        driver.cancel(999_999_999, "")


# retry


@pytest.mark.parametrize("outcome", ["dead_lettered", "cancelled"])
def test_retry_puts_a_job_back_with_all_its_attempts(driver: Driver, outcome: Outcome) -> None:
    job_id = run_to(driver, outcome, tenant="t", idempotency_key="k", priority=2)
    assert driver.retry(job_id) == job_id
    view = seen(driver, job_id)
    assert (view.state, view.attempt, view.crashes, view.finished_at) == ("ready", 0, 0, None)
    assert (view.tenant, view.idempotency_key, view.priority, view.payload) == ("t", "k", 2, {"n": 1})
    (claimed,) = take(driver)
    assert (claimed.id, claimed.attempt, claimed.run_no) == (job_id, 1, 2)
    driver.settle([ending(claimed, "completed")])
    assert seen(driver, job_id).state == "done"


def test_retry_goes_to_the_end_of_the_line(driver: Driver) -> None:
    first = run_to(driver, "dead_lettered")
    second = put(driver)
    driver.retry(first)
    assert [claimed.id for claimed in take(driver)] == [second, first]


def test_retry_of_a_job_whose_key_is_taken_answers_with_the_twin(driver: Driver) -> None:
    first = run_to(driver, "dead_lettered", idempotency_key="k")
    twin = put(driver, idempotency_key="k")
    assert driver.retry(first) == twin
    assert seen(driver, first).state == "dead"


def test_what_is_done_or_unknown_cannot_be_retried(driver: Driver) -> None:
    done = run_to(driver, "completed")
    for job_id in (done, 999_999_999):
        with pytest.raises(JobNotFound):
            driver.retry(job_id)


# looking


def test_no_job_is_none(driver: Driver) -> None:
    assert driver.job(999_999_999) is None


def test_jobs_are_listed_newest_first_in_pages(driver: Driver) -> None:
    ids = [put(driver) for _ in range(5)]
    page = driver.jobs(queue=None, name=None, state=[], limit=2, before=None)
    assert [view.id for view in page] == ids[:2:-1]
    page = driver.jobs(queue=None, name=None, state=[], limit=10, before=page[-1].id)
    assert [view.id for view in page] == ids[2::-1]


def test_jobs_are_found_by_queue_name_and_state(driver: Driver) -> None:
    done = run_to(driver, "completed")
    dead = run_to(driver, "dead_lettered", name="render")
    other = put(driver, queue="other")

    def found(**wanted: Any) -> list[int]:
        given = {"queue": None, "name": None, "state": [], "limit": 10, "before": None, **wanted}
        return [view.id for view in driver.jobs(**given)]

    assert found() == [other, dead, done]
    assert found(queue="mail") == [dead, done]
    assert found(name="render") == [dead]
    assert found(state=["done", "ready"]) == [other, done]
    assert found(queue="other", state=["dead"]) == []


def _facts(job: NewJob) -> dict[str, Any]:
    return {name: getattr(job, name) for name in NewJob.__struct_fields__}
