"""What the policy may want done."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.records import Child, Kill, Seat


@dataclass(frozen=True, slots=True)
class Spawn:
    """Fork a child for this seat: its first, its next, or the successor of the one that still works."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Ask:
    """Have this child leave its stacks: it is about to be killed."""

    child: Child
    kill: Kill


@dataclass(frozen=True, slots=True)
class Spare:
    """Take that back: what it was to be killed for is over."""

    child: Child


@dataclass(frozen=True, slots=True)
class End:
    """SIGKILL this child."""

    child: Child
    kill: Kill


@dataclass(frozen=True, slots=True)
class Retire:
    """Let this child finish what it holds and go."""

    child: Child
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing can run: go down with this exit code."""

    code: int
    why: str


Action = Spawn | Ask | Spare | End | Retire | GiveUp
