"""Background jobs on PostgreSQL, run by a supervisor that forks real worker processes."""

# Eager on purpose: `stoker.job` and `stoker.retry` are modules too, and the functions must win over them.
from stoker.client import (
    cancel,
    cancel_async,
    enqueue,
    enqueue_async,
    enqueue_many,
    enqueue_many_async,
    get,
    get_async,
    result,
    result_async,
    retry,
    retry_async,
    wait,
    wait_async,
)
from stoker.context import Ctx, current_ctx
from stoker.declaring import job
from stoker.drivers.base import JobView
from stoker.errors import Aborted, StokerError
from stoker.hooks import middleware, on_start, on_stop, preload
from stoker.job import Job
from stoker.retry import Retry
from stoker.run_signal import RunSignal
from stoker.session import configure

__all__ = [
    "Aborted",
    "Ctx",
    "Job",
    "JobView",
    "Retry",
    "RunSignal",
    "StokerError",
    "cancel",
    "cancel_async",
    "configure",
    "current_ctx",
    "enqueue",
    "enqueue_async",
    "enqueue_many",
    "enqueue_many_async",
    "get",
    "get_async",
    "job",
    "middleware",
    "on_start",
    "on_stop",
    "preload",
    "result",
    "result_async",
    "retry",
    "retry_async",
    "wait",
    "wait_async",
]
