"""The board: what one process writes another reads, whole."""

import multiprocessing
import time
from collections.abc import Iterator

import pytest

from tests.support import HANGS_S
from worker_proc.board import BUCKETS, NAMES, OTHER, OUTCOMES, Board, SlotWord, Word


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board.create()
    yield board
    board.close()


def test_slots_do_not_overlap(board: Board) -> None:
    first, second = board.add_slot(lanes=3), board.add_slot(lanes=1)
    first.fill_lane(2, 7, 1, 3)
    first.count(OUTCOMES[-1], OTHER)
    assert list(second.counters()) == []
    assert list(second.executing()) == []
    assert [run and run.job_id for run in map(first.read_lane, range(3))] == [None, None, 7]


def test_counters_are_per_outcome_and_name(board: Board) -> None:
    slot = board.add_slot(lanes=1)
    slot.count("ok", 0)
    slot.count("ok", 0, by=4)
    slot.count("dead", NAMES - 1)
    assert list(slot.counters()) == [(0, 0, 5), (OUTCOMES.index("dead"), NAMES - 1, 1)]
    slot.reset(generation=2, claim_no=9)
    assert list(slot.counters()) == []
    assert (slot[SlotWord.GENERATION], slot[SlotWord.CLAIM_NO]) == (2, 9)


def test_a_duration_falls_into_the_first_bucket_that_holds_it(board: Board) -> None:
    slot = board.add_slot(lanes=1)
    for seconds in (0.0, BUCKETS[0], BUCKETS[0] + 1e-6, BUCKETS[-1] + 1):
        slot.count_run("ok", 0, seconds)
    buckets = slot.buckets()
    assert (buckets[0], buckets[1], buckets[-1], sum(buckets)) == (2, 1, 1, 4)


@pytest.mark.parametrize(
    ("host", "until", "cap", "trusted"),
    [(0, 100, 0, False), (1, 100, 0, True), (1, 50, 0, False), (1, 100, 40, False), (1, 100, 200, True)],
)
def test_trust(board: Board, host: int, until: int, cap: int, trusted: bool) -> None:
    board[Word.HOST_ID], board[Word.TRUSTED_UNTIL], board[Word.TRUST_CAP] = host, until, cap
    assert board.lease_trusted(60) is trusted


def test_a_full_arena_refuses(board: Board) -> None:
    board[Word.NEXT_FREE] = len(board.words) - 100
    with pytest.raises(MemoryError):
        board.add_slot(lanes=1)


def _juggle(fd: int, offset: int) -> None:
    slot, job = Board(fd).slot(offset, 1), 1
    while True:
        job += 1
        slot.fill_lane(0, job, job * 3, job * 7)
        slot.clear_lane(0)


def test_a_reader_never_pairs_a_job_with_anothers_run(board: Board) -> None:
    slot = board.add_slot(lanes=1)
    writer = multiprocessing.get_context("fork").Process(target=_juggle, args=(board.fd, slot.offset), daemon=True)
    writer.start()
    began, seen = time.monotonic(), 0
    try:
        while seen < 100 or time.monotonic() - began < 0.5:
            assert time.monotonic() - began < HANGS_S, f"seen {seen} times"
            for run in slot.executing():
                seen += 1
                assert run.run_no == run.job_id * 3
    finally:
        writer.kill()
        writer.join()
