"""The verdict: every ending, and which one wins."""

from asyncio import CancelledError
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import Job, Retry
from stoker.body import Ended
from stoker.drivers.base import Claimed, Settlement
from stoker.errors import Aborted, Interrupted, JobNotFound, JobTimeout, PayloadInvalid
from stoker.run_signal import PRECEDENCE, Reason
from stoker.settings import Settings
from stoker.verdict import OUTCOME_LABEL, judge
from tests.library.runs import claimed

RETURNED = Ended(True, {"pages": 3})
RAISED = Ended(False, None, ValueError("own"))


def _work(payload: dict[str, Any]) -> None: ...


WORK = Job(_work, name="work")


def verdict(
    ended: Ended | None, *reasons: Reason, run: Claimed | None = None, settings: Settings | None = None, **options: Any
) -> Settlement | None:
    return judge(
        Job(_work, **options),
        run or claimed(),
        ended,
        reasons,
        elapsed=1.5,
        rng=Random(1),
        settings=settings or Settings(),
    )


def written(*args: Any, **options: Any) -> Settlement:
    settlement = verdict(*args, **options)
    assert settlement is not None
    return settlement


def test_returned_is_completed_with_its_result() -> None:
    settlement = written(RETURNED)
    assert settlement == Settlement(job_id=41, run_no=7, outcome="completed", result='{"pages":3}', started_ago=1.5)


def test_nothing_returned_is_no_result() -> None:
    assert written(Ended(True)).result is None


def test_a_result_that_cannot_be_kept_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    settlement = written(Ended(True, "x" * 100), settings=Settings(max_result=50))
    assert (settlement.outcome, settlement.result) == ("completed", None)
    assert "job.result_not_stored" in caplog.text and "limit is 50" in caplog.text


def test_an_exception_is_retried_while_attempts_are_left() -> None:
    settlement = written(RAISED, run=claimed(attempt=3, max_attempts=4), retry=Retry(jitter=False))
    assert (settlement.outcome, settlement.delay) == ("retried", 4.0)
    assert settlement.error is not None
    assert (settlement.error["type"], settlement.error["message"]) == ("ValueError", "own")


@pytest.mark.parametrize("attempt", [4, 5, 10**6])
def test_an_exception_in_the_last_attempt_is_the_end(attempt: int) -> None:
    settlement = written(RAISED, run=claimed(attempt=attempt, max_attempts=4))
    assert settlement.outcome == "dead_lettered"
    assert settlement.error is not None
    assert (settlement.error["type"], settlement.error["code"]) == ("ValueError", "STOKER_JOB_MAX_ATTEMPTS")


def test_terminal_errors_are_the_end_at_once() -> None:
    assert written(RAISED, retry=Retry(terminal=(ValueError,))).outcome == "dead_lettered"
    assert written(RAISED, retry=Retry(retryable=(OSError,))).outcome == "dead_lettered"
    unfit = PayloadInvalid(name="work", fault="unfit")
    assert written(Ended(False, None, unfit)).error == {
        **(written(Ended(False, None, unfit)).error or {}),
        "code": "STOKER_PAYLOAD_INVALID",
    }
    assert written(Ended(False, None, JobNotFound(job_id=1))).outcome == "dead_lettered"


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), Aborted(reason="drain"), CancelledError()])
def test_what_a_body_raises_of_itself_is_its_own_failure(error: BaseException) -> None:
    assert written(Ended(False, None, error)).outcome == "retried"


def test_a_lost_lease_writes_nothing() -> None:
    for ended in (RETURNED, RAISED, None):
        assert verdict(ended, "lease_lost") is None
        assert verdict(ended, "drain", "cancel", "lease_lost") is None


@pytest.mark.parametrize("reason", ["cancel", "timeout", "drain"])
def test_a_body_that_returned_has_returned(reason: Reason) -> None:
    assert written(RETURNED, reason).outcome == "completed"


def test_cancel_ends_a_job() -> None:
    settlement = written(Ended(False, None, Interrupted(reason="cancel")), "drain", "timeout", "cancel")
    assert (settlement.outcome, settlement.error) == ("cancelled", None)
    assert (written(RAISED, "cancel").error or {})["message"] == "own"


def test_a_timeout_counts_and_says_so() -> None:
    stopped = Ended(False, None, Interrupted(reason="timeout"))
    settlement = written(stopped, "drain", "timeout", timeout="5s", retry=Retry(jitter=False))
    assert (settlement.outcome, settlement.delay) == ("retried", 1.0)
    assert settlement.error is not None
    assert settlement.error["code"] == "STOKER_JOB_TIMEOUT"
    assert "longer than its timeout of 5 s" in settlement.error["message"]
    last = written(stopped, "timeout", run=claimed(attempt=20), timeout=5)
    assert (last.outcome, (last.error or {})["code"]) == ("dead_lettered", "STOKER_JOB_TIMEOUT")
    never_again = written(stopped, "timeout", timeout=5, retry=Retry(terminal=(JobTimeout,)))
    assert never_again.outcome == "dead_lettered"


def test_whatever_ends_a_run_after_the_drain_signal_is_an_interruption() -> None:
    for error in (ValueError("own"), Interrupted(reason="drain"), SystemExit(1), CancelledError()):
        settlement = written(Ended(False, None, error), "drain", run=claimed(attempt=20))
        assert (settlement.outcome, settlement.delay) == ("interrupted", 0.0)
        assert settlement.error is not None
    assert written(RAISED, "drain", retry=Retry(terminal=(ValueError,))).outcome == "interrupted"


@pytest.mark.parametrize(("put_off", "delay"), [(0, 1), (1, 2), (5, 32), (6, 60), (7, 60), (10**9, 60), (-1, 1)])
def test_an_unknown_name_is_put_off(put_off: int, delay: float) -> None:
    settlement = judge(None, claimed(put_off=put_off), None, (), elapsed=0, rng=Random(), settings=Settings())
    assert settlement == Settlement(job_id=41, run_no=7, outcome="postponed", delay=delay)


def test_an_error_may_choose_its_delay() -> None:
    error = ConnectionError()
    error.retry_after = 90  # type: ignore[attr-defined]
    assert written(Ended(False, None, error)).delay == 90.0


reasons_given = st.lists(st.sampled_from(PRECEDENCE)).map(tuple)
endings = st.one_of(
    st.just(RETURNED),
    st.sampled_from([ValueError("own"), SystemExit(1), KeyboardInterrupt(), Aborted(reason="x"), CancelledError()]).map(
        lambda error: Ended(False, None, error)
    ),
)


@given(endings, reasons_given, st.integers(1, 30))
def test_precedence_holds_for_every_combination(ended: Ended, reasons: tuple[Reason, ...], attempt: int) -> None:
    settlement = judge(WORK, claimed(attempt=attempt), ended, reasons, elapsed=0.1, rng=Random(1), settings=Settings())
    failed = "retried" if attempt < 20 else "dead_lettered"
    expected = [
        ("lease_lost" in reasons, None),
        (ended.returned, "completed"),
        ("cancel" in reasons, "cancelled"),
        ("timeout" in reasons, failed),
        ("drain" in reasons, "interrupted"),
        (True, failed),
    ]
    wanted = next(outcome for applies, outcome in expected if applies)
    assert (settlement.outcome if settlement else None) == wanted
    if settlement and wanted != "completed":
        assert settlement.error or wanted == "cancelled"
        assert 0 <= settlement.delay <= 3600


def test_every_counted_outcome_has_a_label() -> None:
    assert OUTCOME_LABEL == {
        "completed": "ok",
        "retried": "failed",
        "dead_lettered": "dead",
        "cancelled": "cancelled",
        "interrupted": "interrupted",
    }
