"""Who is blamed for a death, and how each run is settled."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stoker.declaring import job
from stoker.errors import JobTimeout, WorkerCrashed
from stoker.job import Job
from stoker.registry import Registry, use
from stoker.retry import Retry
from tests.keeper.rig import death
from worker_proc.blame import Blame, HeldRun
from worker_proc.messages import How, Lane, Verdict


def run(**changes: Any) -> HeldRun:
    facts: dict[str, Any] = {"job_id": 1, "attempt": 1, "max_attempts": 5, "crashes": 0, "held_for": 2.5}
    return HeldRun(run_no=9, name="render", **facts | changes)


def declared(**options: Any) -> Callable[[str], Job[..., Any] | None]:
    registry = Registry()
    with use(registry):

        @job(name="render", **options)
        def render(payload: dict[str, Any]) -> None: ...

    return registry.get


def settle(how: How, verdict: Verdict | None, held: HeldRun, *, job_of: Any = lambda name: None, **facts: Any) -> Any:
    lanes = [Lane(1, 9, verdict)] if verdict else []
    (settlement,) = Blame(job_of=job_of, max_crashes=3, rng=Random(1)).settle(death(7, how, *lanes, **facts), [held])
    return settlement


MATRIX = [
    ("crash", "blamed", {}, "retried", True),
    ("crash", "suspect", {}, "retried", True),
    ("stuck", "suspect", {"crashes": 2}, "dead_lettered", True),
    ("crash", "innocent", {}, "interrupted", False),
    ("crash", None, {}, "handed_back", False),
    ("crash", "blamed", {"crashes": 1}, "retried", True),
    ("crash", "blamed", {"crashes": 2}, "dead_lettered", True),
    ("crash", "blamed", {"attempt": 5}, "dead_lettered", True),
    ("crash", "blamed", {"attempt": 1, "max_attempts": 1}, "dead_lettered", True),
    ("stuck", "blamed", {}, "retried", True),
    ("memory", "blamed", {"crashes": 2}, "dead_lettered", True),
    ("timeout", "blamed", {}, "retried", False),
    ("timeout", "blamed", {"attempt": 5}, "dead_lettered", False),
    ("timeout", "innocent", {}, "interrupted", False),
    ("timeout", None, {}, "handed_back", False),
    ("cancel", "blamed", {}, "cancelled", False),
    ("cancel", "innocent", {}, "interrupted", False),
    ("drain", "innocent", {}, "interrupted", False),
    ("drain", "blamed", {}, "interrupted", False),
    ("drain", None, {}, "handed_back", False),
]


@pytest.mark.parametrize(("how", "verdict", "facts", "outcome", "crashed"), MATRIX)
def test_every_death_and_verdict(
    how: How, verdict: Verdict | None, facts: dict[str, Any], outcome: str, crashed: bool
) -> None:
    settlement = settle(how, verdict, run(**facts))
    assert (settlement.outcome, settlement.crashed) == (outcome, crashed)
    assert (settlement.job_id, settlement.run_no) == (1, 9)


def test_of_several_suspects_none_is_blamed_and_one_alone_is() -> None:
    held = [run(job_id=number) for number in (1, 2, 3, 4)]
    lanes = [Lane(1, 9, "suspect"), Lane(2, 9, "suspect", ended=True), Lane(3, 8, "suspect")]
    blame = Blame(job_of=lambda name: None, max_crashes=3, rng=Random(1))
    several = blame.settle(death(7, "crash", *lanes), held)
    assert [one.outcome for one in several] == ["suspected", "suspected", "handed_back", "handed_back"]
    assert not any(one.crashed or one.delay for one in several)
    assert several[0].error
    assert (several[0].error["signal_name"], several[0].error["code"]) == ("SIGKILL", "STOKER_ABORTED")
    alone = blame.settle(death(7, "crash", *lanes[1:]), held)
    assert [one.outcome for one in alone] == ["handed_back", "retried", "handed_back", "handed_back"]
    assert alone[1].crashed


def test_the_first_crash_is_retried_at_once_and_later_ones_back_off() -> None:
    job_of = declared(retry=Retry(base=8, jitter=False))
    assert settle("crash", "blamed", run(attempt=2), job_of=job_of).delay == 0
    assert settle("crash", "blamed", run(attempt=2, crashes=1), job_of=job_of).delay == 16


def test_a_timeout_is_retried_by_the_policy_and_names_the_timeout() -> None:
    settlement = settle("timeout", "blamed", run(), job_of=declared(timeout=1.5, retry=Retry(base=8, jitter=False)))
    assert settlement.delay == 8
    assert settlement.error["code"] == JobTimeout.code
    assert "1.5 s" in settlement.error["message"]


def test_a_timeout_names_what_the_run_asked_for() -> None:
    message = death(7, "timeout", Lane(1, 9, "blamed", timeout_s=42.5))
    (settlement,) = Blame(job_of=declared(timeout=1.5), max_crashes=3, rng=Random(1)).settle(message, [run()])
    assert settlement.error and "timeout of 42.5 s" in settlement.error["message"]


@pytest.mark.parametrize(("how", "terminal"), [("timeout", JobTimeout), ("crash", WorkerCrashed)])
def test_what_a_job_declares_terminal_ends_it(how: How, terminal: type[Exception]) -> None:
    assert settle(how, "blamed", run(), job_of=declared(retry=Retry(terminal=terminal))).outcome == "dead_lettered"


def test_a_list_of_retryable_exceptions_does_not_make_a_crash_terminal() -> None:
    assert settle("crash", "blamed", run(), job_of=declared(retry=Retry(retryable=(OSError,)))).outcome == "retried"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"signal": 11}, "signal 11, SIGSEGV"),
        ({"signal": 45}, "signal 45"),
        ({"signal": None, "code": 3}, "exit code 3"),
    ],
)
def test_the_error_says_how_the_process_ended(facts: dict[str, Any], words: str) -> None:
    error = settle("crash", "blamed", run(), **facts).error
    assert words in error["message"]
    assert {"type", "code", "message", "signal", "signal_name", "exit_code", "pid", "host"} <= set(error)
    assert not {"peak_rss_bytes", "rss_limit_bytes", "oom"} & set(error), "nobody looked while it ran"


MIB = 1 << 20


def test_a_crash_for_memory_names_the_limit_the_peak_and_the_job() -> None:
    message = death(7, "memory", Lane(1, 9, "blamed", peak_rss_bytes=812 * MIB), rss_limit_bytes=800 * MIB)
    [settled] = Blame(job_of=lambda name: None, max_crashes=3, rng=Random(1)).settle(message, [run()])
    error = settled.error or {}
    assert (error["type"], error["code"], error["how"]) == ("MemoryLimitExceeded", WorkerCrashed.code, "memory")
    assert (error["peak_rss_bytes"], error["rss_limit_bytes"]) == (812 * MIB, 800 * MIB)
    assert "its memory of 812 MiB was above the limit of 800 MiB (kill_rss)" in error["message"]
    assert "job 1 (render)" in error["message"]
    assert settled.crashed


def test_a_crash_by_the_kernel_is_told_as_one() -> None:
    settlement = settle("crash", "blamed", run(), oom=True)
    assert (settlement.outcome, settlement.crashed) == ("retried", True)
    error = settlement.error
    assert (error["type"], error["code"], error["oom"]) == ("OutOfMemory", WorkerCrashed.code, True)
    assert "taken by the kernel's OOM killer" in error["message"]


@pytest.mark.parametrize(
    ("how", "facts", "words"),
    [
        ("memory", {"rss_limit_bytes": 800 * MIB}, "died (killed above 800 MiB, kill_rss)"),
        ("crash", {"oom": True}, "died (taken by the kernel's OOM killer)"),
    ],
)
def test_suspects_are_told_of_the_memory_too(how: How, facts: dict[str, Any], words: str) -> None:
    held = [HeldRun(n, 9, "render", 1, 5, 0, 1.0) for n in (1, 2)]
    message = death(7, how, Lane(1, 9, "suspect"), Lane(2, 9, "suspect"), **facts)
    for settled in Blame(job_of=lambda name: None, max_crashes=3, rng=Random(1)).settle(message, held):
        assert settled.error and words in settled.error["message"]


def test_each_run_has_its_own_peak() -> None:
    held = [HeldRun(n, 9, "render", 1, 5, 0, 1.0) for n in (1, 2)]
    message = death(7, "crash", Lane(1, 9, "suspect", peak_rss_bytes=5), Lane(2, 9, "suspect"))
    first, second = Blame(job_of=lambda name: None, max_crashes=3, rng=Random(1)).settle(message, held)
    assert first.error and first.error["peak_rss_bytes"] == 5
    assert second.error and "peak_rss_bytes" not in second.error


def test_each_run_is_judged_by_its_own_lane() -> None:
    held = [HeldRun(n, n * 10, "render", 1, 5, 0, 1.0) for n in (1, 2, 3)]
    message = death(7, "timeout", Lane(1, 10, "innocent"), Lane(2, 20, "blamed"), Lane(3, 29, "blamed"))
    settled = Blame(job_of=lambda name: None, max_crashes=3, rng=Random(1)).settle(message, held)
    assert [one.outcome for one in settled] == ["interrupted", "retried", "handed_back"]
