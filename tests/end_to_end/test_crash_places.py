"""Every kind of death at every place: the job that ran is blamed if its end was not written, and nobody else."""

import itertools
import signal
from pathlib import Path

import pytest

from tests.bombs import KINDS, PLACES, arm, is_armed
from tests.end_to_end.short_stage import Stage, staged
from tests.side_table import Database
from tests.support import FULL_SCALE, until

HOLDS = {"lease": ("only_leased", "default=2"), "row lock": ("locked", "default=2"), "lanes": ("locked", "default=2x4")}
# Each place once, each kind and each way to hold a job at least once.
SAMPLE = tuple(
    zip(PLACES, ("SIGSEGV", "exit", "SIGABRT", "SIGKILL", "SIGKILL"), (*HOLDS, "row lock", "lease"), strict=True)
)
CELLS = tuple(itertools.product(PLACES, KINDS, HOLDS)) if FULL_SCALE else SAMPLE
# (crashes, attempt, how often the body began) of a job that is done in the end.
BLAMED, SPARED, NEVER_BEGAN = (1, 2, 2), (0, 1, 1), (1, 2, 1)
# Under a row lock another worker may start it before the death is noted: then that run is the first to end.
SOONER = (0, 1, 2)
EXPECTED = {
    "payload decode": {NEVER_BEGAN},
    "before the claim is durable": {SPARED},
    "in the handler": {BLAMED},
    "before settle": {BLAMED},
    "after settle": {SPARED},
}


@pytest.mark.parametrize(("place", "kind", "hold"), CELLS)
def test_a_death(tmp_path: Path, db: Database, place: str, kind: str, hold: str) -> None:
    name, queues = HOLDS[hold]
    env = {"STOKER_APP": "tests.crash_places", "STOKER_QUEUES": queues}
    with staged(tmp_path, db, workers=2, warm=False, **env) as stage:
        if hold == "row lock":
            stage.warm(name)
        arm(stage.effects.path, place, kind)
        (job,) = stage.put({"do": "look"}, name=name)
        until(lambda: not is_armed(stage.effects.path))
        view = db.until_state(job, "done")
        began = stage.effects.times("start")[job]
        assert (view.crashes, view.attempt, began) in expected(place, hold)
        assert [how_it_died(one["error"]) for one in view.attempts] == [kind] * view.crashes
        (died,) = until(lambda: [one for one in stage.supervisor.events("child.exited") if "worker" in one["child"]])
        assert (died.get("signal"), died.get("code")) == expected_end(kind)
        check_good_ones_run(stage, name)


def expected(place: str, hold: str) -> set[tuple[int, int, int]]:
    allowed = EXPECTED[place]
    if hold != "row lock" or place in ("before the claim is durable", "after settle"):
        return allowed
    return allowed | {SPARED if place == "payload decode" else SOONER}


def how_it_died(error: dict[str, object]) -> object:
    assert error["code"] == "STOKER_WORKER_CRASHED"
    return error["signal_name"] if error["signal"] else "exit"


def expected_end(kind: str) -> tuple[int | None, int | None]:
    return (None, 9) if kind == "exit" else (signal.Signals[kind], None)


def check_good_ones_run(stage: Stage, name: str) -> None:
    good = stage.put(*[{}] * 20, name=name)
    stage.db.until_all_done(good)
    assert stage.column("select attempt, crashes from stoker.finished where id = any(%s)", good) == {(1, 0)}
    # A death may be noted when its job has ended elsewhere: then the keeper only takes the note away.
    until(lambda: stage.db.one("select count(*) from stoker.suspects") == 0)
    stage.supervisor.ready()
