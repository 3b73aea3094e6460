"""Reads a handler's signature: what it takes, and whether it is a coroutine function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any, get_type_hints

from stoker.errors import JobDeclarationInvalid
from stoker.payloads import Decode, decoder

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SHAPE = "a handler takes (payload) or (payload, ctx)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """How a handler is called."""

    is_async: bool
    takes_ctx: bool
    decode: Decode


def read_handler(fn: Callable[..., Any], *, name: str) -> Handler:
    """Check that a function can be a handler. Raises JobDeclarationInvalid."""

    def refuse(problem: str, argument: str = "handler") -> JobDeclarationInvalid:
        return JobDeclarationInvalid(name=name, argument=argument, problem=problem)

    if not isinstance(fn, FunctionType):
        raise refuse(f"{fn!r} is not a plain function; declare a module-level `def` or `async def`")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise refuse("it is a generator, whose body would never run; return a value instead of yielding")
    signature = inspect.signature(fn)
    takes_ctx = _takes_ctx(list(signature.parameters.values()), refuse)
    payload = next(iter(signature.parameters.values()))
    try:
        decode = decoder(_payload_type(fn, payload), name=name)
    except (NameError, TypeError, AttributeError) as error:
        raise refuse(f"payloads cannot be read as {payload.annotation!r}: {error}", payload.name) from error
    return Handler(is_async=inspect.iscoroutinefunction(fn), takes_ctx=takes_ctx, decode=decode)


def _takes_ctx(parameters: list[inspect.Parameter], refuse: Callable[[str], JobDeclarationInvalid]) -> bool:
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    if not positional:
        raise refuse(f"it takes no payload; {_SHAPE}")
    if positional[0].name in ("self", "cls"):
        raise refuse(f"it looks like a method; {_SHAPE} and is a function of a module")
    takes_ctx = len(positional) > 1 and _is_ctx(positional[1])
    for parameter in [*positional[2 if takes_ctx else 1 :], *(p for p in parameters if p.kind not in _POSITIONAL)]:
        optional = parameter.default is not parameter.empty
        if not optional and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise refuse(f"nobody would pass {parameter.name!r}; {_SHAPE}")
    return takes_ctx


def _is_ctx(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    written = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameter.name == "ctx" or written.rpartition(".")[2].strip("'\"") == "Ctx"


def _payload_type(fn: FunctionType, payload: inspect.Parameter) -> Any:
    if payload.annotation is payload.empty:
        return None
    # Only this annotation: others may name what exists for type checkers alone.
    only = SimpleNamespace(__annotations__={payload.name: payload.annotation})
    return get_type_hints(only, globalns=inspect.unwrap(fn).__globals__)[payload.name]
