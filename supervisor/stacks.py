"""The stacks a child left behind: a memory file per incarnation, which outlives the process."""

from __future__ import annotations

import os
import re
from typing import Final

from worker_proc.linux import signal_thread
from worker_proc.stack import DUMP

MOST_BYTES: Final = 16 * 1024
_READ_BYTES: Final = 1024 * 1024
_THREAD: Final = re.compile(r"^(?=(?:Current thread|Thread) 0x)", re.MULTILINE)
# How the child came to be forked tells nothing of what it did.
_FORKING: Final = re.compile(r"(in run_child\n)(?:  File .*\n)+")
_LAST_PART: Final = "Extension modules: "


class StackFile:
    """The supervisor's end of it."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("stoker-stack", os.MFD_CLOEXEC)

    def ask(self, pid: int, tid: int) -> bool:
        """Have this thread of a process write the stacks of all; False when there is none that could."""
        self.clear()
        return pid > 0 and tid > 0 and signal_thread(pid, tid, DUMP)

    @property
    def size(self) -> int:
        """How much was written."""
        return os.fstat(self.fd).st_size

    def clear(self) -> None:
        """Forget what was written; the child shares the place where writing goes on."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)

    def read(self) -> str:
        """What was written, arranged."""
        return arrange(os.pread(self.fd, _READ_BYTES, 0))

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


def arrange(dump: bytes) -> str:
    """The stacks as text of at most 16 KB: who faulted first, then who ran bodies, then the others, main before them.

    A dump names the youngest thread first, so in a process of many threads its head alone would often say nothing.
    """
    text, _, last = dump.decode(errors="replace").replace("\0", "").partition(_LAST_PART)
    head, *threads = _THREAD.split(_FORKING.sub(r"\1", text))
    threads.reverse()
    threads.sort(key=lambda thread: _rank(thread, faulted="Fatal" in head))
    parts = [head, *threads, f"{_LAST_PART}{last}" if last else ""]
    whole = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    return whole.encode()[:MOST_BYTES].decode(errors="ignore")


def _rank(thread: str, *, faulted: bool) -> int:
    if faulted and thread.startswith("Current"):
        return 0
    return 1 if "stoker/body.py" in thread else 2
