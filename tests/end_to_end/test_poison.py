"""A job that kills its process, amid a thousand good ones: it alone ends dead, soon."""

import time
from pathlib import Path

import pytest

from tests.end_to_end.short_stage import staged
from tests.figures import Figures
from tests.side_table import Database
from tests.support import FULL_SCALE, scaled

WORKERS = 2
MAX_CRASHES = 3


# Under row locks a sample is among the tests of those.
CASES = (("leased", 0), ("short", WORKERS - 1))


@pytest.mark.parametrize(("name", "too_many"), CASES if FULL_SCALE else CASES[:1])
def test_amid_a_thousand_good_ones(tmp_path: Path, db: Database, figures: Figures, name: str, too_many: int) -> None:
    took, crashes, twice = [], [], []
    with staged(tmp_path, db, workers=WORKERS, warm=name == "short") as stage:
        for _ in range(scaled(1, 10)):
            stage.effects.forget()
            began = time.monotonic()
            ids = stage.put(*[{}] * 500, {"do": "die"}, *[{}] * 500, name=name)
            poison, good = ids[500], ids[:500] + ids[501:]
            view = db.until_state(poison, "dead")
            db.until_all_done(good)
            took.append(time.monotonic() - began)
            assert MAX_CRASHES <= view.crashes == view.attempt <= MAX_CRASHES + too_many
            assert (view.error["code"], view.error["signal_name"]) == ("STOKER_WORKER_CRASHED", "SIGKILL")
            assert len(view.attempts) == view.crashes
            assert stage.column("select attempt, crashes from stoker.finished where id = any(%s)", good) == {(1, 0)}
            starts = stage.effects.times("start", good)
            assert set(starts) == set(good)
            crashes.append(view.crashes)
            # What had ended in the batch of a process that died, and was not written yet.
            twice.append(sum(times > 1 for times in starts.values()))
            stage.supervisor.ready()
    figures.seconds(f"poison amid 1,000 good ones ({name}), until all have ended", took, most=30.0)
    figures.tell(f"poison amid 1,000 good ones ({name})", f"crashes {crashes}, good ones that ran again {twice}")
