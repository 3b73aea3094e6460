"""What became of every job, beside what the jobs themselves wrote down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.soak.theatre import Theatre


@dataclass
class Account:
    """`lost` and `wrong` must be empty."""

    ended: Counter[str] = field(default_factory=Counter)
    # Starts beyond the first, by what allows them.
    again: Counter[str] = field(default_factory=Counter)
    lost: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def settle(theatre: Theatre, jobs: dict[int, str]) -> Account:
    """Judge every job (id: name) of a queue that is empty by now."""
    account = Account()
    query = "select id, state, attempt, run_no, crashes, lost from stoker.finished"
    rows = theatre.rows(query)
    finished = {row[0]: row[1:] for row in rows}
    account.wrong += [f"job {job} ended twice" for job, times in Counter(row[0] for row in rows).items() if times > 1]
    account.lost = sorted(jobs.keys() - finished.keys())
    starts, ends = theatre.effects.times("start"), theatre.effects.times("end")
    for job, name in jobs.items():
        if job in finished:
            _judge(account, job, name, finished[job], starts[job], ends[job])
    return account


def _judge(account: Account, job: int, name: str, row: tuple[str, int, int, int, int], starts: int, ends: int) -> None:
    state, attempt, run_no, crashes, lost = row
    account.ended[state] += 1
    facts = f"job {job} ({name}): {state}, attempt {attempt}, run {run_no}, {crashes} crashes, {lost} lost"
    if state == "done" and not ends:
        account.wrong.append(f"{facts}: done, but it never came to its end")
    # A process that is killed three times with the same job in hand cannot be told from a job that kills it.
    if state != "done" and not (name == "poison" or crashes >= 3):
        account.wrong.append(f"{facts}: it had no reason to")
    if starts <= 1:
        return
    failed = attempt - crashes - (state == "done")
    account.again["its process died"] += min(starts - 1, crashes)
    account.again["it failed"] += max(0, min(starts - 1 - crashes, failed))
    if (left := starts - 1 - crashes - failed) > 0:
        uncounted = min(left, max(0, run_no - attempt))
        account.again["a drain, a lost lease or a reload took it back"] += uncounted
        account.again["its batch was lost before it was written"] += left - uncounted
