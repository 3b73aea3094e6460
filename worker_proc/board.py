"""The shared board: one memfd of 64-bit words, one fact per word, one writer per word, no locks."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

# A memfd is sparse: only pages that are written cost memory, so the arena never has to grow.
ARENA_BYTES: Final = 64 << 20

OUTCOMES: Final = ("ok", "failed", "dead", "cancelled", "interrupted", "suspended", "lost")
NAMES: Final = 256
OTHER: Final = NAMES
BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)


class Phase(IntEnum):
    """What the supervisor asks of everybody."""

    RUNNING = 0
    STOP_ACCEPTING = 1
    CLOSING = 2


class SlotState(IntEnum):
    """What a child says of itself."""

    EMPTY = 0
    STARTING = 1
    WAITING_FOR_DATABASE = 2
    READY = 3
    DRAINING = 4


class Word(IntEnum):
    """Header words."""

    PHASE = 0
    DRAIN_DEADLINE = 1
    DRAIN_ABORTS = 2
    HOST_ID = 3
    TRUSTED_UNTIL = 4
    TRUST_CAP = 5
    NEXT_FREE = 6
    # What TRUSTED_UNTIL becomes when nobody holds the host's session lock.
    TRUSTED_UNLOCKED = 7


HEADER_WORDS: Final = 64


class SlotWord(IntEnum):
    """Words of one slot, before its counters and lanes."""

    GENERATION = 0
    CLAIM_NO = 1
    PID = 2
    STATE = 3
    BEAT = 4
    IN_FLIGHT = 5
    BACKEND_PID = 6
    CLAIMS = 7
    MORE = 8
    DURATION_SUM_US = 9
    DURATION_COUNT = 10
    CONTROL_TID = 11


_BUCKETS_AT: Final = 16
_COUNTERS_AT: Final = _BUCKETS_AT + len(BUCKETS) + 1
_LANES_AT: Final = _COUNTERS_AT + len(OUTCOMES) * (NAMES + 1)
_LANE_WORDS: Final = 6
_JOB, _RUN, _HARD, _LAST_JOB, _LAST_RUN, _GIVEN = range(_LANE_WORDS)

_ROW_OF: Final = {outcome: row * (NAMES + 1) for row, outcome in enumerate(OUTCOMES)}


# Job id and run_no.
RunKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LaneRun:
    """One executing body as a reader saw it, twice the same. `hard_deadline`: CLOCK_MONOTONIC ns, 0 = none.

    `given_ms`: the timeout it asked for, counted from its start; 0 = it did not.
    """

    job_id: int
    run_no: int
    hard_deadline: int
    given_ms: int = 0

    @property
    def key(self) -> RunKey:
        """What names the run."""
        return self.job_id, self.run_no


class Board:
    """The mapping of the whole board. Created by the supervisor, attached by everybody else from the descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, ARENA_BYTES)
        self._bytes = memoryview(self._map)
        # Only item access through a cast view is one aligned 64-bit load or store; struct.pack_into tears.
        self.words = self._bytes.cast("q")

    @classmethod
    def create(cls) -> Board:
        """Make a new, empty board; its descriptor is close-on-exec."""
        fd = os.memfd_create("stoker-board", os.MFD_CLOEXEC)
        os.ftruncate(fd, ARENA_BYTES)
        board = cls(fd)
        board[Word.NEXT_FREE] = HEADER_WORDS
        return board

    def __getitem__(self, word: Word) -> int:
        return self.words[word]

    def __setitem__(self, word: Word, value: int) -> None:
        self.words[word] = value

    def add_slot(self, lanes: int) -> Slot:
        """Reserve the words of one more slot (supervisor only). Raises MemoryError when the arena is used up."""
        offset = self[Word.NEXT_FREE]
        end = offset + _LANES_AT + _LANE_WORDS * lanes
        if end > len(self.words):
            raise MemoryError(f"the board has no room for another slot of {lanes} lanes")
        self[Word.NEXT_FREE] = end
        return Slot(self, offset, lanes)

    def slot(self, offset: int, lanes: int) -> Slot:
        """The slot somebody else reserved."""
        return Slot(self, offset, lanes)

    def lease_trusted(self, boottime_ns: int) -> bool:
        """True while this host may claim: its lease was renewed lately enough and nobody doubts it."""
        cap = self[Word.TRUST_CAP]
        until = self[Word.TRUSTED_UNTIL]
        return self[Word.HOST_ID] != 0 and boottime_ns < (min(until, cap) if cap else until)

    def close(self) -> None:
        """Unmap and close. The views of slots are dead afterwards."""
        self.words.release()
        self._bytes.release()
        self._map.close()
        os.close(self.fd)


class Slot:
    """One slot's words. The supervisor resets it before fork; afterwards only the child writes it."""

    def __init__(self, board: Board, offset: int, lanes: int) -> None:
        self._words = board.words
        self.offset = offset
        self.lanes = lanes
        # Where every run of every job writes: added up once.
        self._lanes_at = offset + _LANES_AT
        self._counters_at = offset + _COUNTERS_AT
        self._buckets_at = offset + _BUCKETS_AT
        self._in_flight_at = offset + int(SlotWord.IN_FLIGHT)
        self._duration_sum_at = offset + int(SlotWord.DURATION_SUM_US)
        self._duration_count_at = offset + int(SlotWord.DURATION_COUNT)

    def __getitem__(self, word: SlotWord) -> int:
        return self._words[self.offset + word]

    def __setitem__(self, word: SlotWord, value: int) -> None:
        self._words[self.offset + word] = value

    def reset(self, *, generation: int, claim_no: int) -> None:
        """Clear what the last incarnation left and name the next one (supervisor, before fork)."""
        for lane in range(self.lanes):
            self.clear_lane(lane)
        for at in range(self.offset, self.offset + _LANES_AT + _LANE_WORDS * self.lanes):
            self._words[at] = 0
        self[SlotWord.GENERATION] = generation
        self[SlotWord.CLAIM_NO] = claim_no
        self[SlotWord.STATE] = SlotState.STARTING

    # Lanes: the job id is written last, so a reader never pairs an id with another body's facts.

    def fill_lane(self, lane: int, job_id: int, run_no: int, hard: int, *, bodies: int = 1) -> None:
        """Say which body this lane executes, and how many execute now."""
        words, at = self._words, self._lanes_at + _LANE_WORDS * lane
        words[self._in_flight_at] = bodies
        words[at + _RUN] = run_no
        words[at + _HARD] = hard
        words[at + _JOB] = job_id

    def clear_lane(self, lane: int, *, bodies: int = 0) -> None:
        """Say that this lane executes nothing, what it executed last, and how many bodies execute now."""
        words, at = self._words, self._lanes_at + _LANE_WORDS * lane
        words[at + _LAST_JOB], words[at + _LAST_RUN] = words[at + _JOB], words[at + _RUN]
        words[at + _JOB] = 0
        words[self._in_flight_at] = bodies

    def move_deadline(self, lane: int, hard: int, given_ms: int) -> None:
        """Give the body this lane executes another hard deadline; 0 and 0 when such a body is over."""
        words, at = self._words, self._lanes_at + _LANE_WORDS * lane
        words[at + _HARD], words[at + _GIVEN] = hard, given_ms

    def read_lane(self, lane: int) -> LaneRun | None:
        """The executing body, or None. A value torn by a concurrent change is read again."""
        words, at = self._words, self._lanes_at + _LANE_WORDS * lane
        while job_id := words[at + _JOB]:
            run_no = words[at + _RUN]
            run = LaneRun(job_id, run_no, words[at + _HARD], words[at + _GIVEN])
            if words[at + _JOB] == job_id and words[at + _RUN] == run_no:
                return run
        return None

    def executing(self) -> Iterator[LaneRun]:
        """Every body this slot executes now."""
        for lane in range(self.lanes):
            if run := self.read_lane(lane):
                yield run

    def blameable(self) -> Iterator[RunKey]:
        """A run per lane of a dead child: what it executed, or else what it executed last.

        A process may die of what a body left behind, such as a destructor. Naming a last run that was settled blames
        nobody.
        """
        for lane in range(self.lanes):
            at = self._lanes_at + _LANE_WORDS * lane
            if run := self.read_lane(lane):
                yield run.key
            elif job_id := self._words[at + _LAST_JOB]:
                yield job_id, self._words[at + _LAST_RUN]

    # Counters

    def count(self, outcome: str, name_index: int, *, by: int = 1) -> None:
        """Add to one counter (child only)."""
        self._words[self._counters_at + _ROW_OF[outcome] + name_index] += by

    def counters(self) -> Iterator[tuple[int, int, int]]:
        """(outcome index, name index, value) of every counter that is not 0."""
        start = self._counters_at
        for at, value in enumerate(self._words[start : start + len(OUTCOMES) * (NAMES + 1)]):
            if value:
                yield at // (NAMES + 1), at % (NAMES + 1), value

    def count_run(self, outcome: str, name_index: int, seconds: float) -> None:
        """Add one run to its counter and its duration to the histogram (child only)."""
        words = self._words
        words[self._counters_at + _ROW_OF[outcome] + name_index] += 1
        words[self._buckets_at + bisect_left(BUCKETS, seconds)] += 1
        words[self._duration_sum_at] += int(seconds * 1e6)
        words[self._duration_count_at] += 1

    def buckets(self) -> list[int]:
        """Observations per bucket, the last one above every bound."""
        start = self._buckets_at
        return list(self._words[start : start + len(BUCKETS) + 1])
