"""What happens in a child between fork and its role, and an exit that never unwinds into the forker."""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Sequence
from typing import NoReturn

from setproctitle import setproctitle

from stoker import logs, session
from stoker.errors import FAILED, StokerError
from stoker.outlet import flush_standard_streams, guard_standard_streams
from stoker.settings import Settings
from worker_proc.board import Board, SlotWord
from worker_proc.channel import Channel
from worker_proc.control import Control
from worker_proc.messages import Died, ForkSpec
from worker_proc.role import Role, live
from worker_proc.stack import leave_stacks_in

log = logs.get("child")


def run_child(
    spec: ForkSpec,
    *,
    control_fd: int,
    stack_fd: int,
    event_fd: int,
    wake_fds: Sequence[int],
    board_fd: int,
    lock_fd: int,
    settings: Settings,
) -> NoReturn:
    """Live as the child that `spec` describes. Signals are still blocked when this is called. Never returns."""
    code = FAILED
    try:
        leave_stacks_in(stack_fd)
        # The forker froze its heap; what the child makes is its own garbage.
        gc.enable()
        setproctitle(spec.title)
        guard_standard_streams()
        logs.configure(settings.log_format, settings.log_level, role=spec.role, slot=spec.slot)
        # What handlers enqueue goes to the database this worker serves.
        session.configure(settings=settings)
        board = Board(board_fd)
        slot = board.slot(spec.offset, spec.lanes)
        slot[SlotWord.PID] = os.getpid()
        channel = Channel.from_fd(control_fd)
        control = Control(channel=channel, board=board, slot=slot, event_fd=event_fd, grace=settings.grace)
        code = _live(spec, control, settings, wake_fds, lock_fd)
    except BaseException:  # noqa: BLE001 - nothing may pass the finally below
        traceback.print_exc()
    finally:
        flush_standard_streams()
        os._exit(code)


def _live(spec: ForkSpec, control: Control, settings: Settings, wake_fds: Sequence[int], lock_fd: int) -> int:
    try:
        role = _role(spec, control, settings, wake_fds, lock_fd)
        control.start(role)
        return live(role)
    except Exception as error:  # noqa: BLE001 - told to the parent, then the process ends
        log.error("child.died", error=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        control.send(Died(f"{type(error).__name__}: {error}"[:4000]))
        return error.exit_code if isinstance(error, StokerError) else FAILED


def _role(spec: ForkSpec, control: Control, settings: Settings, wake_fds: Sequence[int], lock_fd: int) -> Role:
    if spec.role == "keeper":
        from worker_proc.keeper import Keeper

        return Keeper(control, spec=spec, settings=settings, wake_fds=wake_fds, lock_fd=lock_fd)
    from worker_proc.worker import Worker

    return Worker(control, spec=spec, settings=settings)
