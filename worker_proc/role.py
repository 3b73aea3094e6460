"""The loop of every child: boot, say booted, turn while nobody asks to stop, drain, close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from stoker.errors import KILLED, OK
from worker_proc.control import Control
from worker_proc.messages import AnyMessage, Booted, Closed

IDLE_LOOK_NS: Final = 1_000_000_000


class Role(ABC):
    """What one kind of child does. Everything runs on the main thread unless it says otherwise."""

    # Whether a signal sent to this child alone, or to everybody, ends it without its parent's word.
    leaves_on_signal = True

    def __init__(self, control: Control) -> None:
        self.control = control

    def boot(self) -> None:
        """What has to happen before the first turn and may fail the boot."""

    @property
    def done(self) -> bool:
        """True when no more turns are wanted."""
        return self.control.stopping

    @abstractmethod
    def turn(self) -> float:
        """Do what is due; returns the seconds until the next turn, 0 for at once."""

    def wait(self, seconds: float) -> None:
        """Sleep between turns."""
        self.control.wait(seconds)

    @abstractmethod
    def drain(self) -> Closed:
        """Finish or hand back what is held, by the control's deadline."""

    def close(self) -> None:
        """Give back connections and whatever else boot took."""

    # On the control thread

    def on_message(self, message: AnyMessage) -> None:
        """A message that is not about stopping."""

    def on_stop(self) -> None:
        """Somebody asked to stop."""

    def look(self, now_ns: int) -> int:
        """See to deadlines; returns when to look again."""
        return now_ns + IDLE_LOOK_NS


def live(role: Role) -> int:
    """Run a role through its whole life and return the exit code."""
    role.boot()
    role.control.send(Booted())
    while not role.done:
        role.wait(role.turn())
    closed = role.drain()
    role.control.send(closed)
    role.close()
    return KILLED if closed.abandoned else OK
