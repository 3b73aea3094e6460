"""Marks: nothing hidden for longer than promised, nothing walked twice, over an index whose dead entries stay."""

from __future__ import annotations

import random
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.drivers.holding import BEGINNING, Place
from worker_proc.marks import LEAST_S, MOST_S, Mark

EXCHANGE_S = 0.004


@dataclass
class Claim:
    """One claim of the worker under test, as the index saw it."""

    after: Place
    began_at: float
    took: float
    rows: list[Place]
    visited: list[Place]


@dataclass
class Index:
    """Entries in order; those that are not live are dead and cost a visit all the same, as under a held snapshot."""

    visit_s: float = 0.0
    now: float = 0.0
    entries: list[Place] = field(default_factory=list)
    live: dict[Place, float] = field(default_factory=dict)
    mark: Mark = field(default_factory=Mark)
    claims: list[Claim] = field(default_factory=list)
    next_pos: int = 1

    def insert(self, count: int, priority: int = 0) -> None:
        for _ in range(count):
            self.show((priority, self.next_pos))
            self.next_pos += 1

    def show(self, place: Place) -> None:
        """From now on this row can be claimed."""
        if place not in self.live:
            self.live[place] = self.now
            at = bisect_right(self.entries, place)
            if at == 0 or self.entries[at - 1] != place:
                insort(self.entries, place)

    def late_commits(self, count: int) -> list[Place]:
        """Places taken now by rows that are not visible yet."""
        self.next_pos += count
        return [(0, self.next_pos - n) for n in range(1, count + 1)]

    def look(self, after: Place, limit: int) -> tuple[list[Place], list[Place]]:
        rows: list[Place] = []
        at = bisect_right(self.entries, after)
        first = at
        while at < len(self.entries) and len(rows) < limit:
            if self.entries[at] in self.live:
                rows.append(self.entries[at])
            at += 1
        return rows, self.entries[first:at]

    def claim(self, limit: int) -> list[Place]:
        after = self.mark.start(self.now)
        rows, visited = self.look(after, limit)
        took = EXCHANGE_S + self.visit_s * (len(visited) - len(rows))
        self.claims.append(Claim(after, self.now, took, rows, visited))
        self.overtaken(after, rows, took)
        for row in rows:
            del self.live[row]
        self.now += took
        self.mark.claimed(rows[-1] if rows else None, took=took, now=self.now)
        return rows

    def overtaken(self, after: Place, rows: list[Place], took: float) -> None:
        """Nothing is overtaken that has been visible for longer than the promise and the exchange of the last walk."""
        if rows:
            begun = [c.took for c in self.claims if c.after == BEGINNING]
            promise = (MOST_S if self.visit_s else LEAST_S) + begun[-1] + 1e-9
            hidden = {place: seen for place, seen in self.live.items() if place <= after}
            assert all(self.now - seen <= promise for seen in hidden.values()), (hidden, self.now)

    def claim_until_idle(self, limit: int) -> None:
        """As a worker does before it sleeps."""
        while self.claim(limit) or self.mark.active:
            pass


steps = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.integers(1, 20), st.floats(0, 0.03)),
        st.tuples(st.just("insert"), st.integers(1, 40), st.sampled_from([-7, 0, 0, 0, 5])),
        st.tuples(st.just("come back"), st.integers(1, 20), st.integers(0, 2**32)),
        st.tuples(st.just("others claim"), st.integers(1, 20), st.integers(0, 2**32)),
        st.tuples(st.just("late"), st.integers(1, 5), st.integers(0, 0)),
        st.tuples(st.just("commit"), st.integers(1, 5), st.integers(0, 0)),
        st.tuples(st.just("time"), st.just(0), st.floats(0, 3)),
        st.tuples(st.just("vacuum"), st.just(0), st.just(0)),
    ),
    max_size=120,
)


def play(index: Index, story: list[tuple[str, int, float]]) -> None:
    pending: list[Place] = []
    for what, count, more in story:
        match what:
            case "claim":
                index.claim(count)
                index.now += more
            case "insert":
                index.insert(count, int(more))
            case "come back":
                dead = [place for place in index.entries if place not in index.live]
                for place in random.Random(int(more)).sample(dead, min(count, len(dead))):
                    index.show(place)
            case "others claim":
                at = random.Random(int(more)).choice([BEGINNING, *index.entries])
                for place in index.look(at, count)[0]:
                    del index.live[place]
            case "late":
                pending += index.late_commits(count)
            case "commit":
                for place in pending[:count]:
                    index.show(place)
                del pending[:count]
            case "time":
                index.now += more
            case "vacuum":
                index.entries = sorted(index.live)


@settings(deadline=None)
@given(steps, st.sampled_from([0.0, 1e-6, 1e-3, 0.05]))
def test_nothing_stays_hidden_and_a_worker_that_sleeps_leaves_nothing(
    story: list[tuple[str, int, float]], visit_s: float
) -> None:
    index = Index(visit_s=visit_s)
    play(index, story)
    index.claim_until_idle(10)
    assert not index.live


@settings(deadline=None)
@given(steps, st.sampled_from([0.0, 1e-3]))
def test_a_walk_visits_a_place_once_and_between_walks_nothing_is_visited_again(
    story: list[tuple[str, int, float]], visit_s: float
) -> None:
    index = Index(visit_s=visit_s)
    play(index, story)
    top = BEGINNING
    for before, claim in zip([None, *index.claims], index.claims, strict=False):
        if before is None or not before.rows:
            assert claim.after == BEGINNING
            top = BEGINNING
        elif claim.after != BEGINNING:
            assert claim.after == before.rows[-1]
            if claim.after >= top:
                assert all(place > top for place in claim.visited)
        top = max(top, *claim.rows, claim.after)


@settings(deadline=None)
@given(st.integers(1, 200), st.floats(0, 0.02), st.floats(0, 1e-4))
def test_under_constant_load_walks_begin_rarely(limit: int, body_s: float, visit_s: float) -> None:
    index = Index(visit_s=visit_s)
    for _ in range(60):
        index.insert(limit)
        index.claim(limit)
        index.now += body_s
    begun = [claim for claim in index.claims if claim.after == BEGINNING]
    for one, next_one in pairwise(begun):
        assert LEAST_S <= next_one.began_at - (one.began_at + one.took) <= MOST_S + EXCHANGE_S + body_s + 1e-9


def test_a_dead_prefix_costs_about_a_twentieth() -> None:
    index = Index(visit_s=3e-6)
    index.insert(25_000)
    while len(index.claims) < 500:
        index.claim(40)
        index.insert(1, -1)
    walking = sum(claim.took - EXCHANGE_S for claim in index.claims)
    # More than a twentieth only because the prefix grows from walk to walk.
    assert walking / index.now < 0.08
    assert sum(claim.took > 1.5 * EXCHANGE_S for claim in index.claims) < 30


def test_the_first_claim_walks_and_the_next_continues() -> None:
    mark = Mark()
    assert (mark.start(0.0), mark.active) == (BEGINNING, False)
    mark.claimed((0, 7), took=0.001, now=0.001)
    assert (mark.start(0.002), mark.active) == ((0, 7), True)


def test_a_walk_that_found_older_rows_goes_on_from_there_in_order() -> None:
    mark = Mark()
    mark.claimed((0, 900), took=0.001, now=0.001)
    assert mark.start(1.0) == BEGINNING
    mark.claimed((-3, 2000), took=0.001, now=1.001)
    assert mark.start(1.002) == (-3, 2000)
    mark.claimed((0, 1100), took=0.001, now=1.003)
    assert mark.start(1.004) == (0, 1100)


def test_an_empty_claim_is_followed_by_a_walk_and_that_one_proves_it() -> None:
    mark = Mark()
    mark.claimed((0, 900), took=0.001, now=0.001)
    assert mark.start(0.002) == (0, 900)
    mark.claimed(None, took=0.001, now=0.003)
    assert mark.active
    assert mark.start(0.003) == BEGINNING
    mark.claimed(None, took=0.001, now=0.004)
    assert not mark.active
    assert mark.start(0.005) == BEGINNING


def test_the_pause_is_twenty_times_what_walking_cost_beyond_an_exchange() -> None:
    mark = Mark()
    mark.claimed((0, 1), took=0.0, now=0.0)
    for n in range(20):
        assert mark.start(0.001 * n) != BEGINNING
        mark.claimed((0, 100 + n), took=0.010, now=0.001 * n)
    assert mark.start(1.0) == BEGINNING
    mark.claimed((0, 200), took=0.030, now=1.030)
    assert mark.start(1.030 + 0.399) == (0, 200)
    assert mark.start(1.030 + 0.401) == BEGINNING


def test_the_rest_of_the_way_to_the_old_mark_counts_as_walking() -> None:
    mark = Mark()
    mark.claimed((0, 1), took=0.010, now=0.0)
    mark.claimed((0, 900), took=0.010, now=0.01)
    assert mark.start(5.0) == BEGINNING
    mark.claimed((0, 50), took=0.020, now=5.0)
    mark.claimed((0, 950), took=0.010 + 0.030, now=5.04)
    assert mark.start(5.0 + 0.5) == (0, 950)
    assert mark.start(5.0 + 0.81) == BEGINNING


def test_a_walk_cheaper_than_the_average_costs_nothing_and_a_dear_one_is_capped() -> None:
    mark = Mark()
    mark.claimed((0, 1), took=0.5, now=0.0)
    mark.claimed((0, 2), took=0.5, now=0.0)
    assert mark.start(3.0) == BEGINNING
    mark.claimed((0, 3), took=0.001, now=3.0)
    assert mark.start(3.0 + LEAST_S) == BEGINNING
    mark.claimed((0, 4), took=60.0, now=70.0)
    assert mark.start(71.99) == (0, 4)
    assert mark.start(72.01) == BEGINNING


def test_a_claim_whose_answer_never_came_changes_nothing() -> None:
    mark = Mark()
    mark.claimed((0, 1), took=0.001, now=0.0)
    assert mark.start(0.01) == mark.start(0.02) == (0, 1)
    assert mark.start(9.0) == mark.start(9.01) == BEGINNING
