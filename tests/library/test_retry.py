"""Retry: waits that never overflow, and which errors are worth another attempt."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import Retry
from stoker.errors import JobDeclarationInvalid, JobNotFound, JobTimeout
from stoker.retry import LONGEST_WAIT

retries = st.builds(
    Retry,
    base=st.floats(0, LONGEST_WAIT),
    factor=st.floats(1, 1e9),
    cap=st.floats(0, LONGEST_WAIT),
    jitter=st.booleans(),
)


@given(retries, st.integers(-5, 10**12), st.randoms(use_true_random=False))
def test_the_wait_is_between_zero_and_the_cap_for_any_attempt(retry: Retry, attempt: int, rng: Random) -> None:
    assert 0 <= retry.delay(attempt, rng) <= retry.cap


@pytest.mark.parametrize("attempt", [1_000, 5_000, 10**9, 10**300])
@pytest.mark.parametrize("factor", [1.0, 1.0001, 2.0, 5.0, 1e9])
def test_late_attempts_wait_no_longer_than_the_cap(attempt: int, factor: float) -> None:
    assert 0.5 <= Retry(factor=factor, cap=60).delay(attempt, Random(1)) <= 60


def test_without_jitter_waits_double_up_to_the_cap() -> None:
    retry = Retry(base=1, factor=2, cap=10, jitter=False)
    assert [retry.delay(attempt, Random()) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_jitter_spreads_over_the_upper_half() -> None:
    rng = Random(1)
    waits = [Retry(base=8, factor=1).delay(3, rng) for _ in range(1_000)]
    assert min(waits) < 4.2 and max(waits) > 7.8
    assert all(4 <= wait <= 8 for wait in waits)


def test_base_zero_and_cap_below_base() -> None:
    assert Retry(base=0).delay(30, Random()) == 0
    assert Retry(base=10, cap=2, jitter=False).delay(1, Random()) == 2


class Busy(Exception):
    def __init__(self, retry_after: object) -> None:
        self.retry_after = retry_after


@pytest.mark.parametrize(
    ("wish", "wait"),
    [
        (90, 90.0),
        (0.5, 0.5),
        (timedelta(minutes=2), 120.0),
        (-5, 0.0),
        (0, 0.0),
        (10**9, LONGEST_WAIT),
        (86_400, 86_400.0),
    ],
)
def test_retry_after_on_an_error_wins(wish: object, wait: float) -> None:
    assert Retry(cap=60).delay_after(Busy(wish), 1, Random()) == wait


@pytest.mark.parametrize("nonsense", [None, "soon", float("nan"), float("inf"), True, []])
def test_nonsense_in_retry_after_is_ignored(nonsense: object) -> None:
    assert Retry(jitter=False).delay_after(Busy(nonsense), 3, Random()) == 4


def test_a_retry_after_that_cannot_be_read_is_ignored() -> None:
    class Odd(Exception):
        @property
        def retry_after(self) -> float:
            raise KeyError("no header")

    assert Retry(jitter=False).delay_after(Odd(), 1, Random()) == 1


def test_every_error_is_tried_again_by_default() -> None:
    assert not Retry().is_terminal(ValueError())
    assert not Retry().is_terminal(SystemExit(1))


def test_terminal_beats_retryable() -> None:
    retry = Retry(terminal=(FileNotFoundError,), retryable=(OSError,))
    assert retry.is_terminal(FileNotFoundError())
    assert not retry.is_terminal(ConnectionError())


def test_only_what_is_retryable_is_retried() -> None:
    retry = Retry(retryable=OSError)
    assert not retry.is_terminal(OSError())
    assert retry.is_terminal(ValueError())


def test_coded_errors_know_for_themselves() -> None:
    assert Retry().is_terminal(JobNotFound(job_id=1))
    assert Retry(retryable=(JobNotFound,)).is_terminal(JobNotFound(job_id=1))
    assert not Retry().is_terminal(JobTimeout(name="a", job_id=1, timeout=1))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("attempts", 0),
        ("attempts", 1.5),
        ("attempts", True),
        ("attempts", 2**31),
        ("base", -1),
        ("base", float("nan")),
        ("base", float("inf")),
        ("factor", 0.5),
        ("factor", "2"),
        ("cap", -1),
        ("cap", None),
        ("terminal", (ValueError, "KeyError")),
        ("terminal", [ValueError]),
        ("retryable", ValueError()),
    ],
)
def test_wrong_arguments_are_named(argument: str, value: Any) -> None:
    with pytest.raises(JobDeclarationInvalid, match=f"retry.{argument}"):
        Retry(**{argument: value})
