"""What the supervisor sees of a process."""

import os
import signal
import subprocess
import sys

import psutil

from supervisor.observing import read_process
from tests.support import until


def test_it_sees_what_others_see() -> None:
    seen, known = read_process(os.getpid()), psutil.Process()
    assert seen and seen.state == "R"
    times = known.cpu_times()
    assert abs(seen.cpu_s - times.user - times.system) < 1.0
    assert abs(seen.rss - known.memory_info().rss) < 16 << 20


def test_a_stopped_a_dead_and_an_unknown_process() -> None:
    # Its name has what might be taken for the end of one.
    process = subprocess.Popen(
        [sys.executable, "-c", "open('/proc/self/comm', 'w').write('a) Z (b'); input()"], stdin=subprocess.PIPE
    )
    try:
        until(lambda: (seen := read_process(process.pid)) and seen.state == "S" and seen.rss > 0)
        process.send_signal(signal.SIGSTOP)
        until(lambda: (seen := read_process(process.pid)) and seen.state == "T")
        process.kill()
        until(lambda: read_process(process.pid) is None)
    finally:
        process.kill()
        process.communicate()
    assert read_process(process.pid) is None
