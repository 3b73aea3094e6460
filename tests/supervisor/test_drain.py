"""The drain as a pure thing: when it binds, what it waits for, what tightens it."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.drain import Budget, Drain, Request, Stage, View

S = 1_000_000_000
NOBODY = View(workers=0, unstopped=0, in_flight=0, keeper=False, notices=0)


def view(**facts: int) -> View:
    return View(**{"workers": 2, "unstopped": 0, "in_flight": 0, "keeper": True, "notices": 0, **facts})  # type: ignore[arg-type]


@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=1))
def test_the_earliest_deadline_wins(deadlines: list[int]) -> None:
    budget = Budget()
    moved = [budget.bind(deadline) for deadline in deadlines]
    assert budget.deadline == min(deadlines)
    assert moved[0]
    assert sum(moved) == len({min(deadlines[: n + 1]) for n in range(len(deadlines))})


def test_a_manual_stop_binds_nothing_and_aborts_nothing() -> None:
    drain = Drain(grace_s=25)
    assert drain.request(Request.STOP, "stop", S)
    assert (drain.budget.deadline, drain.aborts, drain.stage) == (None, False, Stage.STOP_ACCEPTING)
    assert not drain.request(Request.STOP, "stop", 2 * S)
    assert drain.advance(10_000 * S, view(in_flight=1)) is Stage.STOP_ACCEPTING
    assert drain.worker_close_by() == 0


def test_a_termination_joins_a_manual_stop() -> None:
    drain = Drain(grace_s=25)
    drain.request(Request.STOP, "stop", S)
    assert drain.request(Request.TERMINATE, "SIGTERM", 100 * S)
    assert (drain.budget.deadline, drain.aborts, drain.reason) == (125 * S, True, "SIGTERM")
    assert drain.started_at == S
    assert not drain.request(Request.STOP, "stop", 101 * S), "and a manual stop cannot loosen it"
    assert drain.aborts


def test_second_and_third_terminations() -> None:
    drain = Drain(grace_s=25)
    assert drain.request(Request.TERMINATE, "SIGTERM", 0)
    assert not drain.request(Request.TERMINATE, "SIGTERM", S // 2), "a double key press"
    assert drain.request(Request.TERMINATE, "SIGTERM", S)
    assert drain.budget.deadline == 6 * S
    assert not drain.request(Request.TERMINATE, "SIGTERM", S + S // 2)
    assert drain.request(Request.TERMINATE, "SIGTERM", 2 * S)
    assert drain.budget.deadline == 2 * S


def test_a_short_grace_is_not_stretched_by_a_second_termination() -> None:
    drain = Drain(grace_s=3)
    drain.request(Request.TERMINATE, "SIGTERM", 0)
    drain.request(Request.TERMINATE, "SIGTERM", S)
    assert drain.budget.deadline == 3 * S


def test_the_stages_follow_the_facts() -> None:
    drain = Drain(grace_s=25)
    assert drain.advance(S, view()) is Stage.RUNNING
    drain.request(Request.TERMINATE, "SIGTERM", S)
    assert drain.advance(S, view(unstopped=1)) is Stage.STOP_ACCEPTING
    assert drain.advance(S, view(in_flight=1)) is Stage.STOP_ACCEPTING
    assert drain.advance(2 * S, view()) is Stage.CLOSING
    assert drain.worker_close_by() == 26 * S - S // 5
    assert drain.advance(2 * S, view(workers=1)) is Stage.CLOSING
    assert drain.advance(2 * S, view(workers=0, notices=1)) is Stage.CLOSING, "the dead are settled first"
    assert drain.advance(3 * S, view(workers=0)) is Stage.KEEPER_CLOSING
    assert drain.keeper_close_by() == 26 * S + 6 * S // 5
    assert drain.advance(3 * S, view(workers=0)) is Stage.KEEPER_CLOSING
    assert drain.advance(3 * S, NOBODY) is Stage.DONE


def test_bodies_that_do_not_end_are_waited_for_until_the_deadline_is_near() -> None:
    drain = Drain(grace_s=25)
    drain.request(Request.TERMINATE, "SIGTERM", 0)
    assert drain.advance(int(24.4 * S), view(in_flight=1)) is Stage.STOP_ACCEPTING
    assert drain.next_look(int(24.4 * S)) == int(24.5 * S)
    assert drain.advance(int(24.5 * S), view(in_flight=1)) is Stage.CLOSING
    assert drain.kill_workers_at() == 25 * S


def test_claims_nobody_takes_back_do_not_hold_the_keeper_for_ever() -> None:
    drain = Drain(grace_s=2)
    drain.request(Request.TERMINATE, "SIGTERM", 0)
    drain.advance(2 * S, view())
    assert drain.advance(3 * S, view(workers=0, notices=1)) is Stage.CLOSING
    assert drain.advance(3 * S + S // 2, view(workers=0, notices=1)) is Stage.KEEPER_CLOSING
    assert 3 * S + S // 2 < (drain.kill_keeper_at() or 0) < 4 * S
    manual = Drain(grace_s=2)
    manual.request(Request.STOP, "stop", 0)
    assert manual.advance(S, view(workers=0, notices=1)) is Stage.CLOSING
    assert manual.advance(5 * S, view(workers=0, notices=1)) is Stage.KEEPER_CLOSING


def test_without_a_keeper_nobody_waits_for_it() -> None:
    drain = Drain(grace_s=2)
    drain.request(Request.TERMINATE, "SIGTERM", 0)
    assert drain.advance(S, view(workers=0, notices=3, keeper=False)) is Stage.DONE


def test_a_keeper_that_is_to_come_is_waited_for() -> None:
    drain = Drain(grace_s=2)
    drain.request(Request.TERMINATE, "SIGTERM", 0)
    assert drain.advance(S, view(workers=0, keeper=False, heir=True)) is Stage.CLOSING
    assert drain.advance(S, view(workers=0, keeper=True)) is Stage.KEEPER_CLOSING
    assert drain.advance(S, NOBODY) is Stage.DONE
    late = Drain(grace_s=2)
    late.request(Request.TERMINATE, "SIGTERM", 0)
    assert late.advance(2 * S, view(workers=0, keeper=False, heir=True)) is Stage.CLOSING
    assert late.advance(4 * S, view(workers=0, keeper=False, heir=True)) is Stage.DONE


@given(grace=st.floats(0.5, 100), at=st.integers(1, 10**12))
def test_whatever_the_grace_closing_comes_before_killing(grace: float, at: int) -> None:
    drain = Drain(grace_s=grace)
    drain.request(Request.TERMINATE, "SIGTERM", at)
    kill = drain.kill_workers_at() or 0
    assert at <= drain.worker_close_by() < kill
    near = drain.next_look(at) or 0
    assert near < drain.worker_close_by(), "bodies are unwound before their process has to close"


@given(st.lists(st.tuples(st.sampled_from(list(Request)), st.integers(0, 3 * S)), min_size=1, max_size=8))
def test_deadlines_never_move_away(requests: list[tuple[Request, int]]) -> None:
    drain, now, last = Drain(grace_s=10), 0, None
    for what, pause in requests:
        now += pause
        drain.request(what, "x", now)
        deadline = drain.budget.deadline
        assert last is None or (deadline is not None and deadline <= last)
        last = deadline
