"""Counters never go down: not when a child dies, not when its slot is used again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.totals import Durations, Names, Totals, read_counters, read_durations
from worker_proc.board import NAMES, OTHER, OUTCOMES, Board


def test_names_keep_their_index_for_ever() -> None:
    names = Names()
    names.extend(["b", "a"])
    names.extend(["a", "c"])
    assert names.table == ("b", "a", "c")
    names.extend(f"job{number}" for number in range(1000))
    assert len(names.table) == NAMES
    assert names.table[:3] == ("b", "a", "c")


COUNT = st.tuples(st.sampled_from(OUTCOMES), st.sampled_from([0, 1, 2, OTHER]), st.integers(1, 5))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(COUNT, st.just("dies")), max_size=30))
def test_what_is_seen_never_goes_down(events: list[tuple[str, int, int] | str]) -> None:
    board = Board.create()
    try:
        slot = board.add_slot(1)
        totals, names, last = Totals(), ("x", "y"), {}
        claim_no = 1
        slot.reset(generation=1, claim_no=claim_no)
        for event in events:
            if isinstance(event, str):
                totals.add("q", read_counters(slot, names), read_durations(slot))
                claim_no += 1
                slot.reset(generation=1, claim_no=claim_no)
            else:
                outcome, index, number = event
                slot.count(outcome, index, by=number - 1)
                slot.count_run(outcome, index, 0.02)
            seen = totals.copy()
            seen.add("q", read_counters(slot, names), read_durations(slot))
            assert all(seen.jobs[key] >= value for key, value in last.items())
            last = dict(seen.jobs)
        counts = [event for event in events if not isinstance(event, str)]
        assert sum(last.values()) == sum(number for _, _, number in counts)
        assert seen_runs(totals, slot) == len(counts)
    finally:
        del slot
        board.close()


def seen_runs(totals: Totals, slot: object) -> int:
    folded = totals.durations.get("q", Durations())
    return (folded + read_durations(slot)).count  # type: ignore[arg-type]


def test_unknown_names_are_other() -> None:
    board = Board.create()
    slot = board.add_slot(1)
    slot.count("ok", OTHER)
    slot.count("failed", 7)
    assert read_counters(slot, ["a"]) == [("ok", "other", 1), ("failed", "other", 1)]
    del slot
    board.close()
