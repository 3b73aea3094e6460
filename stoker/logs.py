"""Structured logging on top of `logging`: an event's name and its facts, one whole line each, on standard error."""

import logging
import os
from collections.abc import MutableMapping
from typing import Any

from stoker.log_layout import Event, json_line, plain_words, text_line
from stoker.outlet import Outlet, fill_standard_descriptors
from stoker.shield import shielded

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "stoker_event"}


class LineHandler(logging.Handler):
    """Writes each record as one line; never raises, never blocks for long, says later how many lines it lost."""

    def __init__(self, *, layout: str, facts: dict[str, object]) -> None:
        super().__init__()
        self.outlet = Outlet(fd=2)
        self.lost = 0
        self._write_out = json_line if layout == "json" else text_line
        self._facts = facts

    def handle(self, record: logging.LogRecord) -> bool:
        """Filter and write one record; an unwinding interrupt waits, or it could leave the handler locked."""
        with shielded:
            return bool(super().handle(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        announced = self.outlet.dropped
        try:
            line = self._write_out(self._event(record))
        except Exception as error:  # noqa: BLE001  (a record of the application may hold anything)
            facts = {"logger": record.name, "error": type(error).__name__}
            line = self._write_out(Event(record.created, "warning", "log.unreadable", facts))
        notice = Event(record.created, "warning", "log.dropped", {"count": announced, **self._facts})
        if self.outlet.write((self._write_out(notice) if announced else b"") + line):
            self.outlet.dropped -= announced
        else:
            self.lost += 1

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the name is logging's)
        """Count a record that could not be handled."""
        self.lost += 1

    def _event(self, record: logging.LogRecord) -> Event:
        error = record.exc_info[1] if record.exc_info else None
        facts: dict[str, object] = {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
        level = record.levelname.lower()
        own: dict[str, object] | None = getattr(record, "stoker_event", None)
        if own is not None:
            return Event(record.created, level, record.msg, {**own, **self._facts}, error)
        name = "log" if self._write_out is json_line else record.name
        facts = {**({"logger": record.name} if name == "log" else {}), **facts, **self._facts}
        return Event(record.created, level, name, facts, error, _message(record))


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return f"{record.msg} {record.args!r}"


class Log:
    """Says what happens in one part of Stoker. In a process that called `configure`, events are written as lines; in
    an application's own process they go to the standard logger `stoker.<part>` and its handlers.
    """

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"stoker.{part}")

    def event(
        self, event: str, /, level: str = "info", *, exc_info: BaseException | None = None, **facts: object
    ) -> None:
        """Log an event by its stable name with facts; `exc_info` adds a traceback."""
        number = _LEVELS[level]
        if _state.handler is None:
            if self._logger.isEnabledFor(number):
                self._logger.log(number, "%s", plain_words(event, facts), exc_info=exc_info)
        elif number >= _state.level:
            trace = (type(exc_info), exc_info, exc_info.__traceback__) if exc_info else None
            record = self._logger.makeRecord(self._logger.name, number, "", 0, event, (), trace)
            record.stoker_event = facts
            # Not through the logger: an application's dictConfig disables loggers that exist before it runs.
            _state.handler.handle(record)

    def warning(self, event: str, /, *, exc_info: BaseException | None = None, **facts: object) -> None:
        """Log that something went wrong that Stoker deals with, a failing job for example."""
        self.event(event, "warning", exc_info=exc_info, **facts)

    def error(self, event: str, /, *, exc_info: BaseException | None = None, **facts: object) -> None:
        """Log that Stoker or its surroundings are at fault."""
        self.event(event, "error", exc_info=exc_info, **facts)


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """A standard logger that adds the job's facts to each record."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the job's facts to what the caller passes as `extra`."""
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}


class _State:
    handler: LineHandler | None = None
    level: int = logging.INFO


_state = _State()


def configure(format: str = "auto", level: str = "info", **common_facts: object) -> None:  # noqa: A002
    """Write this process's events and records to standard error; call it first in a process, and again after fork.

    `format` is `json`, `text`, or `auto`: text on a terminal, JSON elsewhere. `common_facts` (role, slot, pid) are
    added to every line. The root logger gets the same handler unless the application has given it one.
    """
    fill_standard_descriptors()
    layout = ("text" if os.isatty(2) else "json") if format == "auto" else format
    root = logging.getLogger()
    handler = LineHandler(layout=layout, facts=common_facts)
    if all(isinstance(known, LineHandler) for known in root.handlers):
        root.handlers[:] = [handler]
        root.setLevel(_LEVELS[level])
    _state.handler, _state.level = handler, _LEVELS[level]
    # What it warns of is an exception on its way to us.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def get(part: str) -> Log:
    """Return the log of one part, for example `get("supervisor")`."""
    return Log(part)


def job_logger(job_id: int, name: str, attempt: int) -> JobLogger:
    """Return the logger a job's body uses: a standard one whose records carry the job's facts."""
    logger = logging.getLogger("stoker.job")
    logger.disabled = False
    return JobLogger(logger, {"job_id": job_id, "job": name, "attempt": attempt})


def lines_lost() -> int:
    """Count the lines this process could not write."""
    return _state.handler.lost if _state.handler else 0
