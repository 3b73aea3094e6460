"""Children that speak the control protocol and misbehave on request: the queue's name says how.

Run as the fork server: `python tests/supervisor/fake_children.py FD`. Facts go to $FAKE_FACTS, one JSON line each.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from stoker.errors import AppNotImportable, StokerError
from stoker.settings import Settings
from supervisor.fork_server import serve
from worker_proc.board import Board, Slot, SlotState, SlotWord, Word
from worker_proc.channel import Channel, ChannelClosed
from worker_proc.linux import boottime_ns
from worker_proc.messages import (
    AcceptStopped,
    Booted,
    CancelRequested,
    ChildDied,
    Close,
    Closed,
    Died,
    ForkSpec,
    HostLost,
    Ready,
    Reaped,
    Recycle,
    StopAccepting,
    WaitingForDatabase,
)


def note(what: str, **facts: Any) -> None:
    """Append one fact, whole."""
    line = json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid(), **facts}) + "\n"
    fd = os.open(os.environ["FAKE_FACTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    os.write(fd, line.encode())
    os.close(fd)


class FakeChild:
    """A worker that claims nothing; with a lane that says it does, if the queue asks for that."""

    def __init__(self, spec: ForkSpec, channel: Channel, board: Board, slot: Slot) -> None:
        self.spec, self.channel, self.board, self.slot = spec, channel, board, slot
        self.stopping = False
        self.kind = spec.queue.partition("-")[0]

    def run(self) -> None:
        # As the control thread does: before anything is said.
        self.slot[SlotWord.BEAT] = time.monotonic_ns()
        getattr(self, f"boot_{self.kind}", self.boot)()
        self.slot[SlotWord.PID] = os.getpid()
        while True:
            self.slot[SlotWord.BEAT] = time.monotonic_ns()
            try:
                message = self.channel.receive()
            except TimeoutError:
                continue
            except ChannelClosed:
                note("orphaned", **self.who())
                if self.kind != "deaf":
                    os._exit(0)
                time.sleep(60)
            note(type(message).__name__, **self.who(), facts=repr(message))
            getattr(self, f"on_{type(message).__name__}_{self.kind}", self.on)(message)

    def who(self) -> dict[str, Any]:
        return {"role": self.spec.role, "queue": self.spec.queue, "claim_no": self.spec.claim_no}

    def boot(self) -> None:
        note("boot", **self.who(), ppid=os.getppid(), title=self.spec.title, generation=self.spec.generation)
        self.channel.send(Booted())
        self.slot[SlotWord.STATE] = SlotState.READY
        self.channel.send(Ready())

    def on(self, message: Any) -> None:
        match message:
            case StopAccepting():
                self.slot[SlotWord.STATE] = SlotState.DRAINING
                self.channel.send(AcceptStopped(self.slot[SlotWord.IN_FLIGHT]))
            case Close() | Recycle():
                self.slot.clear_lane(0)
                self.channel.send(Closed(0, 0, 0))
                os._exit(0)

    # dies: never boots
    def boot_dies(self) -> None:
        note("boot", **self.who())
        self.channel.send(Died("the fake cannot boot"))
        os._exit(1)

    # refuses: its configuration is wrong
    def boot_refuses(self) -> None:
        self.channel.send(Died("the fake is not configured"))
        os._exit(78)

    # hangs: boots for ever
    def boot_hangs(self) -> None:
        note("boot", **self.who())
        time.sleep(3600)

    # waits: no database
    def boot_waits(self) -> None:
        note("boot", **self.who())
        self.channel.send(Booted())
        self.channel.send(WaitingForDatabase("nobody answers"))

    # deaf: ignores whatever it is told, signals too
    def boot_deaf(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.boot()

    def on_StopAccepting_deaf(self, message: Any) -> None:  # noqa: N802
        pass

    on_Close_deaf = on_Recycle_deaf = on_StopAccepting_deaf  # noqa: N815

    # busy: executes one body, which ends once it is told to close
    def boot_busy(self) -> None:
        self.execute(hard=0)
        self.boot()

    # late: its body is beyond its hard deadline soon
    def boot_late(self) -> None:
        self.execute(hard=time.monotonic_ns() + 300_000_000)
        self.boot()

    # stubborn: executes a body that never ends
    boot_stubborn = boot_busy

    def on_Close_stubborn(self, message: Any) -> None:  # noqa: N802
        pass

    # brief: executes a body of half a second, or $FAKE_BRIEF_S, from the stop on
    boot_brief = boot_busy

    def on_StopAccepting_brief(self, message: Any) -> None:  # noqa: N802
        self.on(message)
        time.sleep(float(os.environ.get("FAKE_BRIEF_S", "0.5")))
        self.slot.clear_lane(0)

    # daemon: leaves a process behind that outlives it unless somebody ends its group
    def boot_daemon(self) -> None:
        if os.fork() == 0:
            if os.fork() == 0:
                note("daemon", **self.who())
                time.sleep(120)
            os._exit(0)
        os.wait()
        self.boot()

    # worn: has done many runs
    def boot_worn(self) -> None:
        for _ in range(50):
            self.slot.count_run("ok", 0, 0.01)
        self.boot()

    def execute(self, *, hard: int) -> None:
        self.slot.fill_lane(0, 700 + self.spec.slot, 1, hard)


class FakeKeeper(FakeChild):
    """Acknowledges deaths at once, unless $FAKE_KEEPER says otherwise."""

    def boot(self) -> None:
        self.kind = os.environ.get("FAKE_KEEPER", "good")
        self.board[Word.HOST_ID] = 4711
        self.board[Word.TRUSTED_UNTIL] = self.board[Word.TRUSTED_UNLOCKED] = boottime_ns() + 3_600_000_000_000
        if self.kind == "stops":
            signal.signal(signal.SIGTERM, lambda *_: self.channel.send(AcceptStopped(0)))
        super().boot()
        if self.kind == "cancels":
            self.channel.send(CancelRequested(701, "somebody asked"))
        if self.kind == "loses" and self.spec.claim_no == 1:
            time.sleep(0.5)
            self.channel.send(HostLost())

    def on_ChildDied_mute(self, message: ChildDied) -> None:  # noqa: N802
        pass

    def on(self, message: Any) -> None:
        if isinstance(message, ChildDied):
            self.channel.send(Reaped(message.claim_no))
        else:
            if isinstance(message, Close):
                self.board[Word.HOST_ID] = 0
            super().on(message)

    def on_Close_deaf(self, message: Any) -> None:  # noqa: N802
        pass


def fake_child(
    spec: ForkSpec,
    *,
    control_fd: int,
    stack_fd: int,
    event_fd: int,
    wake_fds: list[int],
    board_fd: int,
    lock_fd: int,
    settings: Settings,
) -> NoReturn:
    """Live as a fake."""
    channel = Channel.from_fd(control_fd)
    channel.settimeout(0.2)
    board = Board(board_fd)
    slot = board.slot(spec.offset, spec.lanes)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    kind = FakeKeeper if spec.role == "keeper" else FakeChild
    kind(spec, channel, board, slot).run()
    os._exit(0)


class BrokenApp(AppNotImportable):
    """What the supervisor is told when the directory has a file of that name."""

    def __init__(self) -> None:
        StokerError.__init__(self, cause="", fix="")

    def __str__(self) -> str:
        return "the fake does not import"


def load(modules: tuple[str, ...]) -> list[str]:
    """Pretend to import the application."""
    time.sleep(float(os.environ.get("FAKE_IMPORT_S", "0")))
    if os.environ.get("FAKE_IMPORT") == "crash":
        os.abort()
    if Path("broken").exists():
        raise BrokenApp
    return ["noop", "render"]


if __name__ == "__main__":
    serve(Channel.from_fd(int(sys.argv[1])), child_main=fake_child, load=load)
