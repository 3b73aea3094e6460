"""One job in full, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker.console.output import in_json, local_time, plain
from stoker.drivers.base import JobView


def job_sheet(view: JobView) -> str:
    """Everything that is stored about a job, with its failed attempts and their tracebacks."""
    lines = [f"Job {view.id}: {view.name} on queue {view.queue}, {view.state}", ""]
    lines += [f"{label:<10}{text}" for label, text in _facts(view) if text]
    for attempt in view.attempts:
        lines += ["", *_attempt(attempt)]
    return plain("\n".join(lines))


def _facts(view: JobView) -> Iterator[tuple[str, str]]:
    yield "attempt", f"{view.attempt} of {view.max_attempts}"
    yield "priority", str(view.priority)
    yield "key", view.idempotency_key or ""
    yield "tenant", view.tenant or ""
    yield "created", local_time(view.created_at)
    yield "due", local_time(view.run_at) if view.state == "delayed" else ""
    yield "started", local_time(view.started_at)
    yield "finished", local_time(view.finished_at)
    yield "crashes", str(view.crashes or "")
    yield "suspect", "runs alone, because a process died that ran it and others" if view.suspect else ""
    yield "lost", f"{view.lost} times with its host" if view.lost else ""
    yield "payload", in_json(view.payload)
    yield "result", in_json(view.result) if view.state == "done" else ""
    yield "error", _error_line(view.error)


def _attempt(attempt: dict[str, Any]) -> Iterator[str]:
    ended = local_time(attempt["ended_at"])
    yield f"Attempt {attempt['attempt']} (run {attempt['run_no']}): {attempt['outcome']} {ended}"
    yield f"  {_error_line(attempt['error'])}"
    if isinstance(attempt["error"], dict):
        for title, part in (("", "traceback"), ("  Stacks of its process, the last call first:", "stack")):
            if text := str(attempt["error"].get(part, "")):
                yield from (title,) * bool(title)
                yield from (f"    {line}" for line in text.splitlines())


def _error_line(error: Any) -> str:
    if not isinstance(error, dict):
        return "" if error is None else in_json(error)
    said = ": ".join(str(error[part]) for part in ("type", "message") if error.get(part))
    others = {
        key: value for key, value in error.items() if key not in ("type", "message", "traceback", "code", "stack")
    }
    code = f" [{error['code']}]" if error.get("code") else ""
    return f"{said}{code}{f' {in_json(others)}' if others else ''}"
