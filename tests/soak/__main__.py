"""`python -m tests.soak --minutes 10`: two supervisors under mixed load, while everything that can go wrong does."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time

from stoker.drivers.base import NewJob
from tests.soak.account import Account, settle
from tests.soak.chaos import Chaos
from tests.soak.theatre import Theatre

BATCH = 200
# More would only wait.
MOST_WAITING = 5_000


def main() -> int:
    """Soak, tell what happened, and fail if a job was lost or ended as it must not."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    minutes = parser.parse_args().minutes
    with Theatre() as theatre:
        chaos, jobs = Chaos(theatre), {}
        ends_at = time.monotonic() + minutes * 60
        while time.monotonic() < ends_at:
            jobs |= feed(theatre)
            chaos.strike()
        jobs |= dict.fromkeys(chaos.probes, "quick")
        until_empty(theatre)
        account = settle(theatre, jobs)
        codes = [host.close() for host in theatre.hosts]
        if any(codes):
            account.wrong.append(f"the supervisors ended with {codes} although nothing was left to do")
        tell(account, len(jobs), chaos)
        if account.lost or account.wrong:
            raise AssertionError(f"logs and effects are kept in {theatre.root}")
    return 0


def feed(theatre: Theatre) -> dict[int, str]:
    """Some more jobs of every kind, unless enough are waiting; id and name of each."""
    if theatre.rows("select count(*) from stoker.jobs")[0][0] > MOST_WAITING:
        return {}
    names = random.choices(("quick", "nap", "doze", "fail", "poison"), (900, 30, 50, 19, 1), k=BATCH)
    new = [
        NewJob(
            name=name,
            queue="lanes" if name == "doze" or random.random() < 0.05 else "default",
            payload=f'{{"s": {random.uniform(0.01, 0.3):.3f}}}',
            max_attempts=20,
        )
        for name in names
    ]
    return dict(zip(theatre.enqueue(new), names, strict=True))


def until_empty(theatre: Theatre) -> None:
    """Faults are over: what is left must come to its end."""
    ends_by = time.monotonic() + 300
    while left := theatre.rows("select id, name, state from stoker.jobs limit 5"):
        if time.monotonic() > ends_by:
            raise AssertionError(f"five minutes after the last fault there are still {left}; see {theatre.root}")
        time.sleep(0.2)


def tell(account: Account, enqueued: int, chaos: Chaos) -> None:
    """The figures of the soak."""
    print(f"{enqueued} jobs enqueued; {', '.join(f'{count} {state}' for state, count in account.ended.items())}")
    print(f"started again {account.again.total()} times:")
    for why, count in account.again.most_common():
        print(f"  {count:6} {why}")
    print("from a fault to the end of a job that is new then, seconds:")
    for what, took in sorted(chaos.recoveries.items()):
        print(f"  {what:32} {len(took):4} times, median {statistics.median(took):6.2f}, longest {max(took):6.2f}")
    print(f"{len(account.lost)} lost {account.lost[:10] or ''}")
    for line in account.wrong:
        print(f"WRONG: {line}")


if __name__ == "__main__":
    sys.exit(main())
