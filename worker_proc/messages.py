"""The control messages between supervisor, fork server and children."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, msgpack, structs

Role = Literal["worker", "keeper"]
How = Literal["crash", "timeout", "cancel", "drain", "stuck", "memory"]
Verdict = Literal["blamed", "suspect", "innocent"]


class Message(Struct, frozen=True, tag=True):
    """Base of every message: immutable, small, sent as one packet."""


# supervisor → any child


class StopAccepting(Message, frozen=True):
    """Phase 1: claim nothing more, hand back what is reserved; abort the held runs' signals if `signal`."""

    reason: str
    signal: bool


class Close(Message, frozen=True):
    """Phase 2: settle by `deadline_ns` (CLOCK_MONOTONIC, 0 = no limit), close, exit. A later one may only tighten."""

    deadline_ns: int


class Recycle(Message, frozen=True):
    """Finish the held work, claim nothing more, exit; the replacement is ready."""


class Cancel(Message, frozen=True):
    """Abort one run."""

    job_id: int
    run_no: int
    reason: str


# child → supervisor


class Booted(Message, frozen=True):
    """The hooks ran; from here the boot deadline is off."""


class WaitingForDatabase(Message, frozen=True):
    """Alive, not ready: PostgreSQL does not answer."""

    error: str


class Ready(Message, frozen=True):
    """Able to do its work."""


class AcceptStopped(Message, frozen=True):
    """Nothing more is claimed; `in_flight` bodies are still executing."""

    in_flight: int


class Closed(Message, frozen=True):
    """The last word: how the drain went for the runs that were held when it began."""

    finished: int
    interrupted: int
    abandoned: int


class Died(Message, frozen=True):
    """Why the child is about to exit with an error."""

    error: str


class QueueGauge(Struct, frozen=True):
    """One queue as the sample in the database has it."""

    queue: str
    depth: dict[str, int]
    oldest_ready_s: float
    dead: int


class Gauges(Message, frozen=True):
    """The keeper's last sample of the queues, and for how long the oldest snapshot of the database has been held."""

    queues: list[QueueGauge]
    oldest_snapshot_s: float = 0.0


# supervisor ↔ keeper


class Lane(Struct, frozen=True):
    """What a dead child's lane was executing, and whose fault the death is held to be.

    `ended`: the body was over; it is only blamed if its ending was not written yet. `peak_rss_bytes`: the most memory
    the process was seen to have during the run; 0 = nobody looked. `timeout_s`: what the run asked for; 0 = it did not.
    """

    job_id: int
    run_no: int
    verdict: Verdict
    ended: bool = False
    peak_rss_bytes: int = 0
    timeout_s: float = 0.0


class DeathFacts(Struct, frozen=True):
    """How a child's life ended, for the attempt's error; which queue it served, and in which session.

    `rss_limit_bytes`: the limit it was killed for, else 0; `oom`: the kernel took it because memory had run out.
    `stack`: those of its threads, as it left them. Notes of suspects keep all this in the database: what an older
    version did not write has a default.
    """

    pid: int
    exit_code: int | None
    signal: int | None
    host: str
    queue: str
    backend_pid: int
    title: str
    rss_limit_bytes: int = 0
    oom: bool = False
    stack: str = ""


class ChildDied(Message, frozen=True):
    """A child is dead; its claims are to be given back. Sent again until `Reaped` names the same number."""

    claim_no: int
    how: How
    lanes: list[Lane]
    facts: DeathFacts


class CancelRequested(Message, frozen=True):
    """Somebody asked for a job to be cancelled; does a lane of this host have it?"""

    job_id: int
    reason: str


class Reaped(Message, frozen=True):
    """The claims of this incarnation are back in the queue."""

    claim_no: int


class SuspectsWaiting(Message, frozen=True):
    """In these queues jobs wait that may have killed a process: each needs a worker that runs them alone."""

    queues: list[str]


class HostLost(Message, frozen=True):
    """This host was judged dead by another: abort everything held, replace the workers, take a new host id."""


# supervisor ↔ fork server


class StartServer(Message, frozen=True):
    """First packet to the fork server, with the descriptors of the board and the host lock.

    Then one pidfd for each of `guarded`: children of a fork server that died, to be ended should they be orphaned.
    """

    settings: bytes
    supervisor_pid: int
    guarded: list[int] = []


class Imported(Message, frozen=True):
    """The application is loaded; `names` are its jobs."""

    names: list[str]


class ImportFailed(Message, frozen=True):
    """The application could not be loaded."""

    error: str


class SlotRef(Struct, frozen=True):
    """Where a worker slot lies on the board and which queue it serves."""

    slot: int
    queue: str
    offset: int
    lanes: int


class ForkSpec(Struct, frozen=True):
    """Everything a child has to know about itself."""

    slot: int
    role: Role
    title: str
    offset: int
    lanes: int
    claim_no: int
    generation: int
    names: list[str]
    queue: str = ""
    workers: list[SlotRef] = []
    # Of a worker: it claims suspects alone, and ends when none are left. Of a keeper: where such workers are.
    solo: bool = False
    solos: list[SlotRef] = []


class Fork(Message, frozen=True):
    """Fork one child. Descriptors: control socket, stack file, eventfd, then (keeper) every worker slot's eventfd."""

    spec: ForkSpec


class Forked(Message, frozen=True):
    """The child exists and is the supervisor's own."""

    slot: int
    claim_no: int
    pid: int


class ForkFailed(Message, frozen=True):
    """The system refused to fork."""

    slot: int
    claim_no: int
    error: str


AnyMessage = (
    StopAccepting
    | Close
    | Recycle
    | Cancel
    | Booted
    | WaitingForDatabase
    | Ready
    | AcceptStopped
    | Closed
    | Died
    | Gauges
    | ChildDied
    | CancelRequested
    | Reaped
    | SuspectsWaiting
    | HostLost
    | StartServer
    | Imported
    | ImportFailed
    | Fork
    | Forked
    | ForkFailed
)

_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(AnyMessage)


def encode(message: Message) -> bytes:
    """One packet for a message."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        return _encoder.encode(_legible(message))


def decode(packet: bytes) -> AnyMessage:
    """The message in a packet. Raises msgspec.DecodeError for anything else."""
    return _decoder.decode(packet)


def _legible(message: Message) -> Message:
    """Errors quote what applications say, which need not be text that can be sent, such as a name of a file."""
    texts = {name: value for name, value in structs.asdict(message).items() if isinstance(value, str)}
    legible = {name: value.encode(errors="backslashreplace").decode() for name, value in texts.items()}
    return structs.replace(message, **legible)
