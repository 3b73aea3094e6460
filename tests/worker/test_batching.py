"""Batch sizes: 1 until known, twofold growth to 20 ms of work, 1 again as soon as something runs long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_proc.batching import Batching


def test_unknown_is_one() -> None:
    assert Batching(cap=100).next() == 1


def test_short_jobs_grow_the_batch_to_the_cap() -> None:
    batching = Batching(cap=50)
    sizes = []
    for _ in range(8):
        batching.observe("job", 0.00001)
        sizes.append(batching.next())
    assert sizes == [2, 4, 8, 16, 32, 50, 50, 50]


def test_the_batch_is_about_20_ms_of_work() -> None:
    batching = Batching(cap=500)
    for _ in range(20):
        batching.observe("job", 0.002)
        size = batching.next()
    assert size == 10


def test_one_long_job_shrinks_it_at_once() -> None:
    batching = Batching(cap=500)
    for _ in range(20):
        batching.observe("job", 0.0001)
        batching.next()
    batching.observe("job", 1.0)
    assert batching.next() == 1


def test_a_name_is_short_once_its_runs_were() -> None:
    batching = Batching(cap=500)
    assert not batching.is_short("job")
    batching.observe("job", 0.001)
    assert batching.is_short("job")
    for _ in range(5):
        batching.observe("job", 0.02)
    assert not batching.is_short("job")


def test_the_leading_run_ends_at_the_first_name_that_is_not_short() -> None:
    batching = Batching(cap=500)
    batching.observe("short", 0.00099)
    batching.observe("long", 0.1)
    assert batching.leading(["short", "short", "long", "short"]) == 2
    assert batching.leading(["unknown", "short"]) == 0
    assert batching.leading(["short"] * 100) == 20


@given(st.lists(st.floats(min_value=0, max_value=1e6)), st.integers(1, 500))
def test_always_between_one_and_the_cap(durations: list[float], cap: int) -> None:
    batching = Batching(cap=cap)
    for seconds in durations:
        batching.observe("job", seconds)
        assert 1 <= batching.next() <= cap


@pytest.mark.parametrize(
    ("seconds", "behind", "expected"),
    [
        (0.010, 0, 20),
        (0.010, 1, 20),
        (0.010, 2, 0),
        (0.025, 0, 8),
        (0.025, 1, 0),
        (0.1, 0, 2),
        (0.001, 0, 0),
        (0.2, 0, 0),
    ],
)
def test_jobs_of_middling_length_are_claimed_before_the_last_ones_end(
    seconds: float, behind: int, expected: int
) -> None:
    batching = Batching(cap=500)
    batching.observe("job", seconds)
    for _ in range(5):
        batching.came_ahead(full=True)
    assert batching.ahead("job", behind=behind) == expected
    assert batching.ahead("unknown", behind=behind) == 0


def test_only_in_a_long_queue_many_are_claimed_ahead() -> None:
    batching = Batching(cap=500)
    batching.observe("job", 0.010)
    asked = []
    for full in (True, True, True, False, True):
        asked.append(batching.ahead("job"))
        batching.came_ahead(full=full)
    assert asked == [1, 2, 4, 8, 1]
