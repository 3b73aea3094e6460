"""The interrupt: once per run, only inside the body, never inside a shielded call."""

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from stoker.errors import Interrupted
from stoker.shield import shielded
from tests.support import scaled
from worker_proc.unwind import UNWIND, Unwinder


@pytest.fixture
def unwinder() -> Iterator[Unwinder]:
    before = signal.getsignal(UNWIND)
    unwinder = Unwinder()
    unwinder.install()
    yield unwinder
    signal.signal(UNWIND, before)


def test_it_strikes_the_named_run(unwinder: Unwinder) -> None:
    unwinder.name(1)
    unwinder.open()
    threading.Timer(0.05, unwinder.strike, (1, "cancel")).start()
    with pytest.raises(Interrupted) as caught:
        time.sleep(5)
    assert caught.value.reason == "cancel"
    unwinder.close()


def test_it_leaves_another_run_alone(unwinder: Unwinder) -> None:
    unwinder.name(2)
    unwinder.open()
    unwinder.strike(1, "cancel")
    time.sleep(0.01)
    unwinder.close()


def test_a_strike_before_the_gate_opens_is_not_lost(unwinder: Unwinder) -> None:
    unwinder.name(3)
    unwinder.strike(3, "timeout")
    with pytest.raises(Interrupted):
        unwinder.open()


def test_a_strike_after_the_gate_closed_is_nothing(unwinder: Unwinder) -> None:
    unwinder.name(4)
    unwinder.open()
    unwinder.close()
    unwinder.strike(4, "drain")
    time.sleep(0.01)


def test_a_shielded_call_ends_first(unwinder: Unwinder) -> None:
    unwinder.name(5)
    unwinder.open()
    finished = []
    with pytest.raises(Interrupted):
        with shielded:
            with shielded:
                unwinder.strike(5, "drain")
                time.sleep(0.01)
            finished.append(True)
        pytest.fail("the interrupt was lost")
    assert finished
    unwinder.close()


class _Slow:
    def __init__(self, started: threading.Event) -> None:
        self._started = started

    def __del__(self) -> None:
        self._started.set()
        time.sleep(0.1)


def test_a_strike_into_a_finalizer_is_repeated(unwinder: Unwinder) -> None:
    """What is raised in `__del__` is only printed; the body would go on for ever."""
    started = threading.Event()
    over = threading.Event()

    def control() -> None:
        started.wait()
        unwinder.strike(6, "cancel")
        while not over.wait(0.02):
            unwinder.strike_again()

    striker = threading.Thread(target=control)
    striker.start()
    unwinder.name(6)
    try:
        with pytest.raises(Interrupted):
            unwinder.open()
            slow = _Slow(started)
            del slow
            time.sleep(5)
    finally:
        unwinder.close()
        over.set()
        striker.join()


# Python swallows what is raised in the callback of a weak reference, which may run in a body: the kill is left then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_random_strikes_hit_only_open_bodies(unwinder: Unwinder) -> None:
    """Bodies as short as the gaps between strikes, so that strikes land on every edge; none escapes the try."""
    current = [0]
    over = threading.Event()

    def strike_at_random() -> None:
        while not over.wait(0.0001):
            unwinder.strike(current[0], "cancel")

    def is_struck(token: int) -> bool:
        current[0] = token
        unwinder.name(token)
        try:
            unwinder.open()
            sum(range(2000))
            unwinder.close()
        except Interrupted:
            unwinder.close()
            return True
        return False

    striker = threading.Thread(target=strike_at_random)
    striker.start()
    try:
        struck = token = 0
        while struck < scaled(50, 5_000):
            token += 1
            struck += is_struck(token)
    finally:
        over.set()
        striker.join()
