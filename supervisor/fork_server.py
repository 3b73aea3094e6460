"""The fork server: imports the application once, forks every child, and outlives the supervisor by 3 s to end them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn, Protocol

from setproctitle import setproctitle

from stoker import logs
from stoker.application import describe
from stoker.errors import StokerError
from stoker.outlet import flush_standard_streams, guard_standard_streams
from stoker.settings import Settings, from_json
from supervisor.app_loading import load_app
from supervisor.forking import Newborn, fork_orphan
from worker_proc import copies
from worker_proc.channel import Channel, ChannelClosed
from worker_proc.linux import signal_on_parent_death
from worker_proc.messages import Fork, Forked, ForkFailed, ForkSpec, Imported, ImportFailed, StartServer

ORPHANS_LIVE_S: Final = 3.0
# A child may hear of the death of the supervisor, and follow it, before this process does.
LATELY_S: Final = 1.0

# A signal for the whole group must not end the only process that can end the children for sure.
_IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class ChildMain(Protocol):
    """What runs in a child; it installs its handlers, unmasks the signals and ends in os._exit."""

    def __call__(
        self,
        spec: ForkSpec,
        *,
        control_fd: int,
        stack_fd: int,
        event_fd: int,
        wake_fds: list[int],
        board_fd: int,
        lock_fd: int,
        settings: Settings,
    ) -> NoReturn: ...


def serve(
    channel: Channel, *, child_main: ChildMain, load: Callable[[tuple[str, ...]], list[str]] | None = None
) -> NoReturn:
    """Take `StartServer`, load the application, fork on request until the supervisor is gone, and exit."""
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    with contextlib.suppress(ChannelClosed):
        start, fds = channel.receive_with_fds()
        if not isinstance(start, StartServer):
            raise TypeError(f"expected StartServer, got {start!r}")
        # A hanging import must not outlive the supervisor; there is no child of ours yet that somebody has to end.
        signal_on_parent_death(signal.SIGKILL)
        if os.getppid() != start.supervisor_pid:
            os._exit(1)
        server = ForkServer(channel, start=start, fds=fds, child_main=child_main)
        server.prepare_streams()
        if server.load(load or load_app):
            signal_on_parent_death(0)
            server.serve()
            server.end_orphans(ORPHANS_LIVE_S)
    # Whoever waits for the supervisor's end waits for us, and taking a large application apart would serve nobody.
    flush_standard_streams()
    os._exit(0)


class ForkServer:
    """Forks children for the supervisor and holds a pidfd of each that lives. One thread, no connection."""

    def __init__(self, channel: Channel, *, start: StartServer, fds: list[int], child_main: ChildMain) -> None:
        self._channel = channel
        self._supervisor_pid = start.supervisor_pid
        self._settings = from_json(start.settings)
        self._board_fd, self._lock_fd, *guarded = fds
        self._child_main = child_main
        self._pidfds: dict[int, int] = {}
        # When those ended whose groups were left to the supervisor.
        self._ended: dict[int, float] = {}
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        for pid, pidfd in zip(start.guarded, guarded, strict=True):
            self._guard(pid, pidfd)

    def prepare_streams(self) -> None:
        """Let what the application prints and logs while it is imported harm nobody."""
        guard_standard_streams()
        logs.configure(self._settings.log_format, self._settings.log_level, role="fork server")

    def load(self, load: Callable[[tuple[str, ...]], list[str]]) -> bool:
        """Import the application and tell the supervisor how it went; a copy that the application forks just ends."""
        original = os.getpid()
        try:
            names = load(self._settings.app)
        except StokerError as error:
            if os.getpid() != original:
                copies.leave(error)
            self._channel.send(ImportFailed(describe(error)))
            return False
        if os.getpid() != original:
            copies.leave(None)
        self._channel.send(Imported(names))
        return True

    def serve(self) -> None:
        """Answer requests until the supervisor closes its end."""
        while True:
            for fd, _ in self._poll.poll():
                if fd != self._channel.fileno():
                    self._leave(self._forget(fd))
                    continue
                try:
                    request, fds = self._channel.receive_with_fds()
                    if isinstance(request, Fork):
                        self._fork(request.spec, fds)
                except ChannelClosed:
                    return

    def end_orphans(self, patience: float) -> None:
        """Wait for the children to end by themselves, then end every process group that is left."""
        self._poll.unregister(self._channel)
        for pid, at in self._ended.items():
            if time.monotonic() - at < LATELY_S:
                self._end_group(pid)
        deadline = time.monotonic() + patience
        while self._pidfds and (left := deadline - time.monotonic()) > 0:
            for fd, _ in self._poll.poll(left * 1000):
                # Its leader is gone and nobody is left to look after what a job started.
                self._end_group(self._forget(fd))
        for pid in self._pidfds.values():
            self._end_group(pid)

    def _leave(self, pid: int) -> None:
        """One has ended, and what it started is the supervisor's to end, which may have died just before."""
        now = time.monotonic()
        self._ended = {pid: now} | {pid: at for pid, at in self._ended.items() if now - at < LATELY_S}

    def _fork(self, spec: ForkSpec, fds: list[int]) -> None:
        # What is buffered would be written by every child again.
        flush_standard_streams()
        try:
            child = fork_orphan(partial(self._live, spec, fds))
        except OSError as error:
            self._channel.send(ForkFailed(spec.slot, spec.claim_no, str(error)))
            return
        finally:
            for fd in fds:
                os.close(fd)
        self._keep(child, spec)

    def _keep(self, child: Newborn, spec: ForkSpec) -> None:
        try:
            self._channel.send(Forked(spec.slot, spec.claim_no, child.pid))
        except ChannelClosed:
            child.forsake()
            raise
        self._guard(child.pid, child.pidfd)
        child.release()

    def _guard(self, pid: int, pidfd: int) -> None:
        self._pidfds[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)

    def _forget(self, pidfd: int) -> int:
        self._poll.unregister(pidfd)
        os.close(pidfd)
        return self._pidfds.pop(pidfd)

    def _end_group(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def _live(self, spec: ForkSpec, fds: list[int]) -> NoReturn:
        """In the child: keep only what is its own, then be what it was forked for."""
        if os.getppid() != self._supervisor_pid:
            os._exit(1)
        signal_on_parent_death(signal.SIGTERM)
        if os.getppid() != self._supervisor_pid:
            os._exit(1)
        for signum in _IGNORED:
            signal.signal(signum, signal.SIG_DFL)
        self._channel.close()
        for pidfd in self._pidfds:
            os.close(pidfd)
        try:
            self._child_main(
                spec,
                control_fd=fds[0],
                stack_fd=fds[1],
                event_fd=fds[2],
                wake_fds=fds[3:],
                board_fd=self._board_fd,
                lock_fd=self._lock_fd,
                settings=self._settings,
            )
        except BaseException:  # noqa: BLE001  (whatever it was, this process ends here)
            traceback.print_exc()
            flush_standard_streams()
            os._exit(1)


def main() -> None:
    """Entry of `python -m supervisor.fork_server FD`."""
    # What every child runs is imported before the first fork: its pages are shared, and a child starts in no time.
    import worker_proc.keeper
    import worker_proc.worker  # noqa: F401
    from worker_proc.child import run_child

    setproctitle("stoker: fork server")
    serve(Channel.from_fd(int(sys.argv[1])), child_main=run_child)


if __name__ == "__main__":
    main()
