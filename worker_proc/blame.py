"""Pure: how a child died and what it held → how each of its runs is settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from signal import Signals
from typing import Any, Final

from msgspec import Struct

from stoker.drivers.base import Settlement
from stoker.errors import JobTimeout, MemoryLimitExceeded, OutOfMemory, SlotStuck, StokerError, WorkerCrashed
from stoker.job import Job
from stoker.retry import Retry
from worker_proc.messages import ChildDied, Verdict

_DEFAULT: Final = Retry()


class HeldRun(Struct, frozen=True):
    """A running row of a dead child; `held_for` is the seconds since its claim."""

    job_id: int
    run_no: int
    name: str
    attempt: int
    max_attempts: int
    crashes: int
    held_for: float = 0.0


class Blame:
    """Blames the bodies a child was executing; what it had only reserved goes back as if nothing had happened."""

    def __init__(self, *, job_of: Callable[[str], Job[..., Any] | None], max_crashes: int, rng: Random) -> None:
        self._job_of = job_of
        self._max_crashes = max_crashes
        self._rng = rng

    def settle(self, death: ChildDied, held: Iterable[HeldRun]) -> list[Settlement]:
        """One settlement for each run of all that the child held. A suspect that is the only one is to blame."""
        verdicts = {(lane.job_id, lane.run_no): lane.verdict for lane in death.lanes}
        judged = [(run, verdicts.get((run.job_id, run.run_no))) for run in held]
        alone = sum(verdict == "suspect" for _, verdict in judged) == 1
        return [
            self.judge(death, run, "blamed" if alone and verdict == "suspect" else verdict) for run, verdict in judged
        ]

    def judge(self, death: ChildDied, run: HeldRun, verdict: Verdict | None) -> Settlement:
        """What becomes of one run; without a verdict it had not been started."""
        if verdict is None:
            return Settlement(job_id=run.job_id, run_no=run.run_no, outcome="handed_back")
        if verdict == "innocent" or death.how == "drain":
            return _settlement(run, "interrupted", error=_interruption(death, run))
        if verdict == "suspect":
            return _settlement(run, "suspected", error=_suspicion(death, run))
        if death.how == "cancel":
            return _settlement(run, "cancelled", error={**_facts(death, run), **_stack(death)})
        if death.how == "timeout":
            return self._timed_out(death, run)
        return self._crashed(death, run)

    def _timed_out(self, death: ChildDied, run: HeldRun) -> Settlement:
        job = self._job_of(run.name)
        asked_for = max((lane.timeout_s for lane in death.lanes if lane.job_id == run.job_id), default=0.0)
        timeout = asked_for or (job.timeout if job and job.timeout else round(run.held_for, 3))
        error = JobTimeout(name=run.name, job_id=run.job_id, timeout=timeout, killed=True)
        retry = job.retry if job else _DEFAULT
        record = _record(error, death, run)
        if run.attempt >= run.max_attempts or isinstance(error, retry.terminal):
            return _settlement(run, "dead_lettered", error=record)
        return _settlement(run, "retried", error=record, delay=retry.delay(run.attempt, self._rng))

    def _crashed(self, death: ChildDied, run: HeldRun) -> Settlement:
        job = self._job_of(run.name)
        retry = job.retry if job else _DEFAULT
        crashes = run.crashes + 1
        error = _crash(death, run, crashes)
        record = _record(error, death, run)
        if crashes >= self._max_crashes or run.attempt >= run.max_attempts or isinstance(error, retry.terminal):
            return _settlement(run, "dead_lettered", error=record, crashed=True)
        delay = 0.0 if crashes == 1 else retry.delay(run.attempt, self._rng)
        return _settlement(run, "retried", error=record, delay=delay, crashed=True)


def _settlement(run: HeldRun, outcome: Any, **facts: Any) -> Settlement:
    return Settlement(job_id=run.job_id, run_no=run.run_no, outcome=outcome, started_ago=run.held_for, **facts)


def _crash(death: ChildDied, run: HeldRun, crashes: int) -> WorkerCrashed:
    facts = death.facts
    known: dict[str, Any] = {"name": run.name, "job_id": run.job_id, "crashes": crashes}
    known |= {"host": facts.host, "pid": facts.pid, "peak_rss": _peak_rss(death, run)}
    if death.how == "memory":
        return MemoryLimitExceeded(**known, limit=facts.rss_limit_bytes)
    if facts.oom:
        return OutOfMemory(**known)
    return (SlotStuck if death.how == "stuck" else WorkerCrashed)(**known, how=_how(death))


def _record(error: StokerError, death: ChildDied, run: HeldRun) -> dict[str, Any]:
    said = {"type": type(error).__name__, "code": error.code, "message": error.cause}
    return {**said, **_facts(death, run), **_stack(death)}


def _interruption(death: ChildDied, run: HeldRun) -> dict[str, Any]:
    why = "at the deadline of a drain" if death.how == "drain" else "because of another job it ran"
    message = f"Worker process {death.facts.pid} on {death.facts.host} ended {why}; this run does not count."
    return {"type": "Interrupted", "code": "STOKER_ABORTED", "message": message, **_facts(death, run)}


def _peak_rss(death: ChildDied, run: HeldRun) -> int:
    return max((lane.peak_rss_bytes for lane in death.lanes if lane.job_id == run.job_id), default=0)


def _suspicion(death: ChildDied, run: HeldRun) -> dict[str, Any]:
    message = (
        f"Worker process {death.facts.pid} on {death.facts.host} died ({_how(death)}) while it ran this job and others;"
        " this run does not count, and the next one is alone."
    )
    said = {"type": "Suspected", "code": "STOKER_ABORTED", "message": message}
    return {**said, **_facts(death, run), **_stack(death)}


def _facts(death: ChildDied, run: HeldRun) -> dict[str, Any]:
    facts = death.facts
    memory: dict[str, Any] = {"peak_rss_bytes": peak} if (peak := _peak_rss(death, run)) else {}
    memory |= {"rss_limit_bytes": facts.rss_limit_bytes} if facts.rss_limit_bytes else {}
    memory |= {"oom": True} if facts.oom else {}
    return {
        "how": death.how,
        "claim_no": death.claim_no,
        "signal": facts.signal,
        "signal_name": signal_name(facts.signal),
        "exit_code": facts.exit_code,
        "pid": facts.pid,
        "host": facts.host,
        **memory,
    }


def _stack(death: ChildDied) -> dict[str, Any]:
    return {"stack": death.facts.stack} if death.facts.stack else {}


def _how(death: ChildDied) -> str:
    if death.how == "stuck":
        return "no sign of life, killed"
    if death.how == "memory":
        return f"killed above {death.facts.rss_limit_bytes / 2**20:,.0f} MiB, kill_rss"
    if death.facts.oom:
        return "taken by the kernel's OOM killer"
    if (number := death.facts.signal) is not None:
        return f"signal {number}, {signal_name(number)}"
    return f"exit code {death.facts.exit_code}"


def signal_name(number: int | None) -> str | None:
    """SIGKILL for 9; the number itself where it has no name."""
    if number is None:
        return None
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
