"""What one round trip of a worker's desk sends, and in which order."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from stoker.drivers.base import Holder, Outcome, Settlement
from stoker.drivers.calls import Call, Keeping
from stoker.sql import statement
from worker_proc.round_trip import BEGIN, COMMIT, Claim, compose

STATEMENTS = (
    *("claim_batch", "lock_batch", "lease_locked", "finish_locked", "drop_locked"),
    *("settle_done", "settle_batch", "notify_ready"),
)
LEASES, LOCKS = Claim(10, (0, 5), by_lock=False), Claim(10, (0, 5), by_lock=True)


def end(job_id: int, outcome: Outcome = "completed") -> Settlement:
    return Settlement(job_id=job_id, run_no=1, outcome=outcome)


def send(
    ended: Sequence[Settlement],
    claim: Claim | None,
    *,
    locked: Collection[int] = (),
    keep: Collection[int] = (),
    keeping: Keeping | None = None,
) -> list[Call[Any]]:
    return compose(
        ended,
        claim,
        queue="q",
        locked=set(locked),
        keep=keep,
        holder=Holder(1, 2),
        keeping=keeping or Keeping(),
    )


def names(calls: Sequence[Call[Any]]) -> list[str]:
    known = {statement(name): name for name in STATEMENTS} | {BEGIN.statement: "begin", COMMIT.statement: "commit"}
    return [known[call.statement] for call in calls]


def ids(calls: Sequence[Call[Any]], name: str) -> set[int]:
    """Of the only call of that statement."""
    (found,) = [call.params["ids"] for call in calls if call.statement == statement(name)]
    return set(map(int, found.strip("{}").split(","))) if isinstance(found, str) else set(found)


class TestWithoutLocks:
    """Nothing is open: one implicit transaction, or one of its own when the claim opens the next."""

    def test_leases_alone(self) -> None:
        assert names(send([], LEASES)) == ["claim_batch"]

    def test_endings_and_leases_share_a_transaction(self) -> None:
        calls = send([end(1), end(2, "retried")], LEASES)
        assert names(calls) == ["settle_done", "settle_batch", "claim_batch"]

    def test_locks_alone_open_a_transaction(self) -> None:
        assert names(send([], LOCKS)) == ["begin", "lock_batch"]

    def test_endings_are_committed_before_locks_are_taken(self) -> None:
        assert names(send([end(1)], LOCKS)) == ["begin", "settle_done", "commit", "begin", "lock_batch"]

    def test_endings_alone(self) -> None:
        assert names(send([end(1, "handed_back")], None)) == ["settle_batch"]

    def test_nothing(self) -> None:
        assert send([], None) == []

    def test_the_claim_is_told_where_to_look(self) -> None:
        for claim in (LEASES, LOCKS):
            params = send([], claim)[-1].params
            assert (params["limit"], params["mark_priority"], params["mark_pos"]) == (10, 0, 5)


class TestWithLocks:
    """A transaction is open and ends here, whatever else is sent."""

    def test_what_returned_is_finished_and_the_next_locks_are_another_transaction(self) -> None:
        calls = send([end(1), end(2)], LOCKS, locked=[1, 2])
        assert names(calls) == ["finish_locked", "commit", "begin", "lock_batch"]
        assert ids(calls, "finish_locked") == {1, 2}

    def test_leases_after_locks(self) -> None:
        assert names(send([end(1)], LEASES, locked=[1])) == ["finish_locked", "commit", "claim_batch"]

    def test_finished_rows_that_are_not_kept_are_dropped(self) -> None:
        calls = send([end(1)], LOCKS, locked=[1], keeping=Keeping(done=False))
        assert names(calls) == ["drop_locked", "commit", "begin", "lock_batch"]

    @pytest.mark.parametrize("outcome", ["retried", "dead_lettered", "cancelled", "interrupted", "postponed"])
    def test_what_did_not_return_is_leased_before_it_is_settled(self, outcome: Outcome) -> None:
        calls = send([end(1), end(2, outcome)], LOCKS, locked=[1, 2, 3])
        assert names(calls) == ["lease_locked", "finish_locked", "settle_batch", "commit", "begin", "lock_batch"]
        assert (ids(calls, "lease_locked"), ids(calls, "settle_batch")) == ({2}, {2})

    def test_what_executes_is_leased_and_the_rest_is_free_and_said_to_be(self) -> None:
        calls = send([end(1)], None, locked=[1, 2, 3], keep=[2])
        assert names(calls) == ["lease_locked", "finish_locked", "commit", "notify_ready"]
        assert ids(calls, "lease_locked") == {2}

    def test_nobody_is_told_when_nothing_is_let_go(self) -> None:
        assert "notify_ready" not in names(send([end(1)], None, locked=[1, 2], keep=[2]))
        assert "notify_ready" not in names(send([end(1)], None, locked=[1, 2], keeping=Keeping(notify=False)))

    def test_who_executed_and_returned_meanwhile_is_not_leased(self) -> None:
        calls = send([end(1)], None, locked=[1], keep=[1])
        assert names(calls) == ["finish_locked", "commit"]

    def test_who_executed_and_failed_meanwhile_is_leased_once(self) -> None:
        calls = send([end(1, "retried")], None, locked=[1], keep=[1])
        assert names(calls) == ["lease_locked", "settle_batch", "commit"]
        assert calls[0].params["ids"] == "{1}"

    def test_leased_endings_of_before_are_fenced_even_when_they_returned(self) -> None:
        calls = send([end(1), end(9)], LOCKS, locked=[1])
        assert names(calls) == ["finish_locked", "settle_done", "commit", "begin", "lock_batch"]
        assert (ids(calls, "finish_locked"), ids(calls, "settle_done")) == ({1}, {9})

    def test_a_job_to_keep_that_is_not_locked_is_leased_already(self) -> None:
        assert "lease_locked" not in names(send([], LEASES, locked=[1], keep=[9]))

    def test_locks_of_which_nothing_ended_are_given_up(self) -> None:
        assert names(send([], LEASES, locked=[1])) == ["commit", "claim_batch"]

    def test_results_are_sent_only_if_there_are_any(self) -> None:
        with_result = Settlement(job_id=2, run_no=1, outcome="completed", result="1")
        assert send([end(1), end(2)], None, locked=[1, 2])[0].params["results"] is None
        assert send([end(1), with_result], None, locked=[1, 2])[0].params["results"] == [None, "1"]
