"""What an application declared: jobs by name, and hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stoker.errors import JobNameTaken

if TYPE_CHECKING:
    from stoker.context import Ctx
    from stoker.job import Job

Hook = Callable[[], Any]
Middleware = Callable[["Ctx"], Iterator[None]]


class Registry:
    """Jobs and hooks in the order of their declaration. A function that is imported twice is declared once."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job[..., Any]] = {}
        self._preload: dict[str, Hook] = {}
        self._preloaded: set[str] = set()
        self._on_start: dict[str, Hook] = {}
        self._on_stop: dict[str, Hook] = {}
        self._middleware: dict[str, Middleware] = {}
        self.middleware: tuple[Middleware, ...] = ()

    def add(self, job: Job[..., Any]) -> None:
        """Declare a job. Raises JobNameTaken when another function holds its name."""
        known = self.jobs.get(job.name)
        if known is not None and source(known.fn) != source(job.fn):
            raise JobNameTaken(name=job.name, first=place(known.fn), second=place(job.fn))
        self.jobs[job.name] = job

    def get(self, name: str) -> Job[..., Any] | None:
        """The job of that name, if it is declared."""
        return self.jobs.get(name)

    def names(self) -> list[str]:
        """All job names, sorted."""
        return sorted(self.jobs)

    @property
    def preload(self) -> tuple[Hook, ...]:
        """What runs once before any worker is forked."""
        return tuple(self._preload.values())

    @property
    def to_preload(self) -> tuple[Hook, ...]:
        """Those of them that did not run in this process yet."""
        return tuple(hook for key, hook in self._preload.items() if key not in self._preloaded)

    @property
    def on_start(self) -> tuple[Hook, ...]:
        """What runs in a worker before its first job."""
        return tuple(self._on_start.values())

    @property
    def on_stop(self) -> tuple[Hook, ...]:
        """What runs in a worker after its last job."""
        return tuple(self._on_stop.values())

    def add_preload(self, hook: Hook) -> None:
        """Declare what runs once before any worker is forked."""
        self._preload[_identity(hook)] = hook

    def preloaded(self, hook: Hook) -> None:
        """Note that it ran in this process."""
        self._preloaded.add(_identity(hook))

    def add_on_start(self, hook: Hook) -> None:
        """Declare what runs in a worker before its first job."""
        self._on_start[_identity(hook)] = hook

    def add_on_stop(self, hook: Hook) -> None:
        """Declare what runs in a worker after its last job."""
        self._on_stop[_identity(hook)] = hook

    def add_middleware(self, wrap: Middleware) -> None:
        """Declare what goes around every run; the first one declared is the outermost."""
        self._middleware[_identity(wrap)] = wrap
        self.middleware = tuple(self._middleware.values())


_registries = [Registry()]


def current() -> Registry:
    """The registry that declarations go to."""
    return _registries[-1]


@contextmanager
def use(registry: Registry) -> Iterator[Registry]:
    """Let declarations and look-ups go to another registry for a while; for tests."""
    _registries.append(registry)
    try:
        yield registry
    finally:
        _registries.remove(registry)


def place(fn: Callable[..., Any]) -> str:
    """Where a function was written, for people."""
    return f"{fn.__module__}.{fn.__qualname__} ({source(fn)})"


def source(fn: Callable[..., Any]) -> str:
    """File and line: equal for one function imported twice, under whatever module name."""
    # Under its decorators: what one decorator made of two functions is not one function.
    code = inspect.unwrap(fn).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _identity(fn: Callable[..., Any]) -> str:
    # A function made inside another one is a new one each time, not the same one imported twice.
    return f"{source(fn)} {id(fn)}" if "<locals>" in fn.__qualname__ else source(fn)
