"""The fork servers: one that forks now, a fresh one that is still importing, old ones whose children still work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from stoker import logs
from stoker.settings import Settings, to_json
from supervisor.backoff import delay_s
from supervisor.fork_client import ForkClient, ServerState
from supervisor.house import House
from supervisor.launching import COMMAND, Launched, launch
from supervisor.records import Exit
from worker_proc.messages import AnyMessage, Imported, ImportFailed

log = logs.get("supervisor")


class Forkers:
    """Keeps a serving fork server there. A reload replaces it only by one that has imported the application."""

    def __init__(
        self,
        house: House,
        *,
        on_reply: Callable[[AnyMessage], None],
        on_unborn: Callable[[int], None],
        command: Sequence[str] = COMMAND,
        early: Launched | None = None,
    ) -> None:
        self._house = house
        self._on_reply = on_reply
        self._on_unborn = on_unborn
        self._command = command
        self._early = early
        self._all: list[ForkClient] = []
        self._settings: dict[int, Settings] = {}
        self.current: ForkClient | None = None
        self.coming: ForkClient | None = None
        self._failures = 0
        self._retry_at = 0

    @property
    def serving(self) -> ForkClient | None:
        """The one to fork with now."""
        return self.current if self.current and self.current.state is ServerState.SERVING else None

    def start(self, settings: Settings, *, generation: int) -> None:
        """Start a fresh one; a start still under way is given up."""
        if self.coming:
            self.coming.kill()
        guarded = [] if self.current else [child.pid for child in self._house.ledger.children.values() if child.pid]
        try:
            self.coming = self._open(settings, generation, guarded)
        except OSError as error:
            self.coming = None
            self._retry()
            log.error("fork_server.not_started", error=str(error), failures=self._failures)
            return
        self._all.append(self.coming)
        self._settings[self.coming.pid] = settings

    def _open(self, settings: Settings, generation: int, guarded: list[int]) -> ForkClient:
        launched, self._early = self._early or launch(self._command), None
        return ForkClient(
            launched,
            settings=to_json(settings),
            board_fd=self._house.board.fd,
            lock_fd=self._house.lock.fd,
            generation=generation,
            born_at=time.monotonic_ns(),
            selector=self._house.selector,
            on_reply=self._hear,
            guarded=guarded,
        )

    def look_after(self, now: int) -> None:
        """Start again after a failure, end an import that takes too long, let go of those nobody needs any more."""
        if (due := self._import_limit()) and now >= due and self.coming:
            log.error("app.import_hangs", pid=self.coming.pid, limit_s=self._house.settings.boot_deadline)
            self.coming.kill()
        if not self.current and not self.coming and now >= self._retry_at and not self._house.drain.stopping:
            self.start(self._house.settings, generation=self._house.ledger.generation)
        used = {child.generation for child in self._house.ledger.children.values()}
        for forker in self._all:
            if forker not in (self.current, self.coming) and forker.generation not in used:
                forker.close()

    def next_look(self) -> int | None:
        """When `look_after` is due next."""
        return self._import_limit() if self.coming else None if self.current else self._retry_at

    def hear(self) -> None:
        """Take replies that wait: whoever was born must be known before the dead are looked at."""
        for forker in self._all:
            forker.hear()

    def exited(self, end: Exit) -> bool:
        """If this was one of ours: note its end. True if it was."""
        forker = next((forker for forker in self._all if forker.pid == end.pid), None)
        if forker is None:
            return False
        unborn = forker.exited(end.code if end.code is not None else -(end.signal or 0))
        self._all.remove(forker)
        self._settings.pop(forker.pid)
        for claim_no in unborn:
            self._on_unborn(claim_no)
        if forker in (self.current, self.coming) and not self._house.drain.stopping:
            self._failed(forker, end)
        self.current = None if forker is self.current else self.current
        self.coming = None if forker is self.coming else self.coming
        return True

    def close(self) -> None:
        """Let go of all; those that only import are ended."""
        self.current = self.coming = None
        for forker in self._all:
            forker.close()

    def kill(self) -> None:
        """End those that did not go by themselves."""
        for forker in self._all:
            forker.kill()

    @property
    def pids(self) -> list[int]:
        """Process ids of all that live."""
        return [forker.pid for forker in self._all]

    @property
    def has_open_request(self) -> bool:
        """True while an unknown pid may be a child of ours."""
        return any(forker.has_open_request for forker in self._all)

    def _hear(self, forker: ForkClient, message: AnyMessage) -> None:
        match message:
            case Imported(names=names) if forker is self.coming:
                self.current, self.coming = forker, None
                self._failures = 0
                self._adopt(forker, names)
            case ImportFailed(error=error) if forker is self.coming:
                self._import_failed(forker, error)
            case _:
                self._on_reply(message)

    def _adopt(self, forker: ForkClient, names: list[str]) -> None:
        house, settings = self._house, self._settings[forker.pid]
        house.names.extend(names)
        took = round((time.monotonic_ns() - forker.born_at) / 1e9, 3)
        log.event("app.imported", jobs=len(names), generation=forker.generation, pid=forker.pid, took_s=took)
        if forker.generation > house.ledger.generation:
            house.renew(settings, generation=forker.generation)

    def _import_failed(self, forker: ForkClient, error: str) -> None:
        line, _, where = error.partition("\n")
        facts: dict[str, Any] = {"where": where} if where else {}
        fresh = forker.generation > self._house.ledger.generation
        self.coming = None
        if fresh:
            log.error("reload.failed", error=line, **facts)
        elif self._house.ledger.ever_ready:
            log.error("app.import_failed", error=line, **facts)
            self._retry()
        else:
            self._house.ledger.refused = error

    def _import_limit(self) -> int | None:
        coming = self.coming
        return coming.born_at + self._house.limits.boot if coming and not coming.killed else None

    def _retry(self) -> None:
        self._failures += 1
        self._retry_at = time.monotonic_ns() + int(delay_s(self._failures - 1) * 1e9)

    def _failed(self, forker: ForkClient, end: Exit) -> None:
        if forker.generation > self._house.ledger.generation:
            log.error("reload.failed", error=f"the new fork server ended: {end.words}")
            return
        self._retry()
        log.error("fork_server.exited", pid=end.pid, reason=end.words, failures=self._failures)
        if self._failures >= self._house.limits.max_boot_failures and not self._house.ledger.ever_ready:
            self._house.ledger.stranded = f"the fork server ended {self._failures} times, last with {end.words}"
