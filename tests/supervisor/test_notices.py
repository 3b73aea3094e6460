"""Whose fault a death is, and that every death is settled."""

import pytest

from supervisor.notices import Notices, compose
from supervisor.records import Child, Exit, Kill, Seat, Slot
from worker_proc.messages import How

END = Exit(pid=4711, code=None, signal=9, max_rss=1 << 20)


def worker(claim_no: int = 5, kill: Kill | None = None) -> Child:
    child = Child(claim_no, Seat("worker", "q", 0, 3), Slot(1, "q", 3, 64), 1, 0, 0)
    child.kill = kill
    return child


def verdicts(runs: list[int], *, how: How, aimed: set[int] | None = None) -> list[str]:
    kill = Kill(how, "", 0, frozenset((number, 1) for number in aimed)) if aimed is not None else None
    executing = [(number, 1) for number in runs]
    return [
        lane.verdict
        for lane in compose(
            worker(kill=kill), END, how=how, runs=executing, executing=executing, host="h", backend_pid=0
        ).lanes
    ]


@pytest.mark.parametrize(
    ("runs", "how", "aimed", "expected"),
    [
        ([], "crash", None, []),
        ([1], "crash", None, ["blamed"]),
        ([1, 2, 3], "crash", None, ["suspect"] * 3),
        ([1, 2, 3], "timeout", {2}, ["innocent", "blamed", "innocent"]),
        ([1, 2, 3], "cancel", {1, 3}, ["blamed", "innocent", "blamed"]),
        ([1], "stuck", set(), ["blamed"]),
        ([1, 2], "stuck", set(), ["suspect", "suspect"]),
        ([1, 2], "drain", set(), ["innocent", "innocent"]),
        ([3], "timeout", {2}, ["blamed"]),
    ],
)
def test_verdicts(runs: list[int], how: How, aimed: set[int] | None, expected: list[str]) -> None:
    assert verdicts(runs, how=how, aimed=aimed) == expected


def test_the_facts_of_a_death() -> None:
    notice = compose(worker(), END, how="crash", runs=[], executing=[], host="here", backend_pid=0)
    facts = notice.facts
    assert (notice.claim_no, facts.pid, facts.signal, facts.exit_code) == (5, 4711, 9, None)
    assert (facts.max_rss_bytes, facts.queue, facts.host) == (1 << 20, "q", "here")


def test_each_keeper_is_told_once_until_it_is_settled() -> None:
    notices = Notices()
    notices.open(compose(worker(5), END, how="crash", runs=[], executing=[], host="h", backend_pid=0))
    assert [notice.claim_no for notice in notices.untold(1)] == [5]
    assert notices.untold(1) == []
    notices.open(compose(worker(6), END, how="crash", runs=[], executing=[], host="h", backend_pid=0))
    assert [notice.claim_no for notice in notices.untold(1)] == [6]
    assert [notice.claim_no for notice in notices.untold(2)] == [5, 6]
    assert notices.settled(5)
    assert not notices.settled(5)
    assert len(notices) == 1
    assert [notice.claim_no for notice in notices.untold(3)] == [6]
