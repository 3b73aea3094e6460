"""Bodies that do not end when they should, each in a way of its own; no application, so that tests may import it."""

import ctypes
import signal
import time

_FOR_EVER_US = 600_000_000


def swallows_for_ever() -> None:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


def waits_in_c() -> None:
    """For itself, without the GIL, and no signal ends that."""
    mutex = ctypes.create_string_buffer(256)
    while True:
        ctypes.CDLL(None).pthread_mutex_lock(mutex)


def masks_its_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(600)


def keeps_the_gil() -> None:
    while True:
        ctypes.PyDLL(None).usleep(_FOR_EVER_US)


def computes() -> None:
    while True:
        try:
            while True:
                sum(range(1000))
        except BaseException:
            continue
