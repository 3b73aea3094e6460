"""Whose fault a death is, and that every death is settled."""

import pytest

from supervisor.notices import Notices, compose
from supervisor.records import Child, Exit, Kill, Look, Seat, Slot
from worker_proc.messages import How

END = Exit(pid=4711, code=None, signal=9, oom=True)


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
            worker(kill=kill), END, how=how, runs=executing, executing=executing, host="h", backend_pid=0, stack=""
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
        ([3], "timeout", {2}, ["innocent"]),
        ([3, 4], "cancel", {2}, ["innocent", "innocent"]),
    ],
)
def test_verdicts(runs: list[int], how: How, aimed: set[int] | None, expected: list[str]) -> None:
    assert verdicts(runs, how=how, aimed=aimed) == expected


def test_the_facts_of_a_death() -> None:
    child = worker()
    child.kill_rss, child.look = 1 << 30, Look(peaks={(7, 1): 1 << 20})
    runs = [(7, 1), (8, 1)]
    notice = compose(child, END, how="crash", runs=runs, executing=[(7, 1)], host="here", backend_pid=0, stack="")
    facts = notice.facts
    assert (notice.claim_no, facts.pid, facts.signal, facts.exit_code) == (5, 4711, 9, None)
    assert (facts.queue, facts.host, facts.oom, facts.rss_limit_bytes) == ("q", "here", True, 0)
    assert [(lane.job_id, lane.ended, lane.peak_rss_bytes) for lane in notice.lanes] == [
        (7, False, 1 << 20),
        (8, True, 0),
    ]
    for_memory = compose(child, END, how="memory", runs=runs, executing=runs, host="here", backend_pid=0, stack="")
    assert for_memory.facts.rss_limit_bytes == 1 << 30
    assert [lane.verdict for lane in for_memory.lanes] == ["suspect", "suspect"]


def test_each_keeper_is_told_once_until_it_is_settled() -> None:
    notices = Notices()
    notices.open(compose(worker(5), END, how="crash", runs=[], executing=[], host="h", backend_pid=0, stack=""))
    assert [notice.claim_no for notice in notices.untold(1)] == [5]
    assert notices.untold(1) == []
    notices.open(compose(worker(6), END, how="crash", runs=[], executing=[], host="h", backend_pid=0, stack=""))
    assert [notice.claim_no for notice in notices.untold(1)] == [6]
    assert [notice.claim_no for notice in notices.untold(2)] == [5, 6]
    assert notices.settled(5)
    assert not notices.settled(5)
    assert len(notices) == 1
    assert [notice.claim_no for notice in notices.untold(3)] == [6]
