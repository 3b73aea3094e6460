"""`@job`: what a declaration accepts, what an enqueue makes of it, and that the function stays a function."""

import functools
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stoker import Ctx, Job, Retry, job
from stoker.errors import (
    EnqueueInvalid,
    IdempotencyRequired,
    JobDeclarationInvalid,
    JobNameTaken,
    JobTenantRequired,
    NaiveDatetime,
    PayloadInvalid,
)
from stoker.registry import Registry
from stoker.settings import Settings

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Order:
    id: int


def work(payload: dict[str, Any]) -> int:
    """Double it."""
    return int(payload["n"]) * 2


def same(payload: dict[str, Any]) -> None: ...


def typed(order: "Order", ctx: "Ctx", dry_run: bool = False) -> "Decimal | None":
    return None


# declarations


def test_bare_declaration_takes_the_functions_name(declared: Registry) -> None:
    declaration = job(work)
    assert (declaration.name, declaration.queue, declaration.priority, declaration.timeout) == (
        "work",
        "default",
        0,
        None,
    )
    assert declaration.retry == Retry()
    assert declared.get("work") is declaration
    assert declared.names() == ["work"]


def test_declaration_with_arguments() -> None:
    retry = Retry(attempts=3)
    declaration = job(name="w", queue="q", priority=-1, retry=retry, timeout="5m", idempotency_key="k", tenant="t")(
        work
    )
    assert (declaration.name, declaration.queue, declaration.priority, declaration.timeout) == ("w", "q", -1, 300.0)
    assert (declaration.retry, declaration.idempotency_key, declaration.tenant) == (retry, "k", "t")


def test_a_job_is_still_its_function() -> None:
    declaration = job(work)
    assert declaration({"n": 4}) == 8
    assert [getattr(declaration, name) for name in ("__name__", "__doc__", "__module__")] == [
        "work",
        "Double it.",
        __name__,
    ]
    assert declaration.fn is work


@pytest.mark.parametrize("timeout", [90, 1.5 * 60, "90s", "1m30s", timedelta(seconds=90)])
def test_timeouts_are_seconds_text_or_timedelta(timeout: Any) -> None:
    assert job(timeout=timeout)(work).timeout == 90.0


def test_the_annotation_decides_what_a_payload_becomes() -> None:
    declaration = job(typed)
    assert declaration.decode('{"id":3}') == Order(3)
    assert declaration.takes_ctx and not declaration.is_async


def test_a_second_argument_is_the_context_by_name_or_annotation() -> None:
    def named(payload: dict[str, Any], ctx: Any) -> None: ...
    def annotated(payload: dict[str, Any], run: Ctx) -> None: ...
    def neither(payload: dict[str, Any], dry_run: bool = False, *rest: int, deep: bool = True, **more: int) -> None: ...

    assert [job(fn).takes_ctx for fn in (named, annotated, neither)] == [True, True, False]


def test_coroutine_functions_are_known() -> None:
    async def later(payload: dict[str, Any]) -> None: ...

    assert job(later).is_async


class Things:
    def method(self, payload: dict[str, Any]) -> None: ...

    def __call__(self, payload: dict[str, Any]) -> None: ...


def nothing() -> None: ...
def keyword(*, payload: dict[str, Any]) -> None: ...
def three(payload: dict[str, Any], ctx: Ctx, more: int) -> None: ...
def two(payload: dict[str, Any], more: int) -> None: ...
def needs_keyword(payload: dict[str, Any], *, more: int) -> None: ...
def generator(payload: dict[str, Any]) -> Any:
    yield payload


async def async_generator(payload: dict[str, Any]) -> Any:
    yield payload


def text(payload: str) -> None: ...
def unknown(payload: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("fn", "problem"),
    [
        (nothing, "takes no payload"),
        (keyword, "takes no payload"),
        (three, "nobody would pass 'more'"),
        (two, "nobody would pass 'more'"),
        (needs_keyword, "nobody would pass 'more'"),
        (generator, "generator"),
        (async_generator, "generator"),
        (Things.method, "looks like a method"),
        (Things().method, "not a plain function"),
        (Things(), "not a plain function"),
        (Things, "not a plain function"),
        (print, "not a plain function"),
        (text, "a payload is a JSON object"),
        (unknown, "Nowhere"),
    ],
)
def test_a_function_that_cannot_be_a_handler_is_refused(declared: Registry, fn: Any, problem: str) -> None:
    with pytest.raises(JobDeclarationInvalid, match=problem):
        job(fn)
    assert declared.names() == []


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("name", ""),
        ("name", 7),
        ("name", "a\x00b"),
        ("name", "x" * 201),
        ("queue", ""),
        ("queue", None),
        ("queue", "\ud800"),
        ("priority", 32_768),
        ("priority", -32_769),
        ("priority", 1.0),
        ("priority", True),
        ("retry", 3),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", "soon"),
        ("timeout", float("nan")),
        ("idempotency_key", 7),
        ("idempotency_key", ""),
        ("tenant", ["a"]),
    ],
)
def test_wrong_arguments_are_named(argument: str, value: Any) -> None:
    with pytest.raises(JobDeclarationInvalid, match=f"'{argument}'"):
        job(**{argument: value})(work)


def test_a_name_belongs_to_one_function(declared: Registry) -> None:
    first = job(name="n")(work)
    with pytest.raises(JobNameTaken) as caught:
        job(name="n")(same)
    assert "test_job.work (" in str(caught.value) and "test_job.same (" in str(caught.value)
    assert declared.get("n") is first


def test_a_name_belongs_to_one_decorated_function() -> None:
    def traced(fn: Any) -> Any:
        return functools.wraps(fn)(lambda *args: fn(*args))

    declaration = job(name="n")(traced(typed))
    assert declaration.decode('{"id":3}') == Order(3)
    with pytest.raises(JobNameTaken):
        job(name="n")(traced(work))


def test_a_module_imported_twice_declares_once(tmp_path: Any) -> None:
    (tmp_path / "app.py").write_text(
        "import sys\nfrom stoker import job\n"
        "@job\ndef f(payload): ...\n"
        "if __name__ == '__main__':\n    import app\n    print(app.f is not f, app.f.name)\n"
    )
    told = subprocess.run([sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout == "True f\n"


# enqueueing


def test_a_new_job_takes_its_defaults_from_the_declaration() -> None:
    new = job(queue="q", priority=3, retry=Retry(attempts=7))(work).new_job({"n": 1})
    assert (new.name, new.queue, new.priority, new.max_attempts, new.payload) == ("work", "q", 3, 7, '{"n":1}')
    assert (new.run_at, new.delay, new.idempotency_key, new.tenant, new.on_conflict) == (
        None,
        None,
        None,
        None,
        "dedupe",
    )


def test_an_enqueue_can_differ_from_the_declaration() -> None:
    when = datetime.now(UTC)
    options: Any = {"queue": "r", "priority": -32_768, "run_at": when, "max_attempts": 1, "tenant": "t"}
    new = job(work).new_job({}, idempotency_key="k", on_conflict="replace", **options)
    assert (new.queue, new.priority, new.run_at, new.max_attempts, new.tenant) == ("r", -32_768, when, 1, "t")
    assert (new.idempotency_key, new.on_conflict) == ("k", "replace")


def test_no_payload_is_an_empty_one() -> None:
    assert job(work).new_job().payload == "{}"


@pytest.mark.parametrize("delay", [300, "5m", timedelta(minutes=5)])
def test_delays_are_seconds_text_or_timedelta(delay: Any) -> None:
    assert job(work).new_job({}, delay=delay).delay == 300.0


def test_keys_and_tenants_are_made_of_the_payload() -> None:
    declaration = job(idempotency_key=lambda p: f"n:{p['n']}", tenant=lambda p: p["who"])(work)
    new = declaration.new_job({"n": 1, "who": "acme"})
    assert (new.idempotency_key, new.tenant) == ("n:1", "acme")
    new = declaration.new_job({"n": 1}, idempotency_key=None, tenant=lambda p: None)
    assert (new.idempotency_key, new.tenant) == (None, None)
    assert job(name="o", idempotency_key=lambda o: str(o.id))(typed).new_job(Order(9)).idempotency_key == "9"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("delay", -1),
        ("delay", "later"),
        ("delay", timedelta(days=-1)),
        ("delay", 1e12),
        ("delay", float("inf")),
        ("priority", 32_768),
        ("priority", "high"),
        ("priority", None),
        ("on_conflict", "ignore"),
        ("on_conflict", []),
        ("queue", ""),
        ("queue", "nobody serves this"),
        ("queue", "q" * 64),
        ("dealy", 5),
        ("max_attempts", 0),
        ("max_attempts", 2**31),
        ("run_at", "tomorrow"),
        ("run_at", 1_700_000_000),
        ("run_at", datetime.max.replace(tzinfo=UTC)),
        ("idempotency_key", 5),
        ("idempotency_key", lambda payload: 5),
        ("idempotency_key", "x" * 1025),
        ("idempotency_key", "a\x00"),
        ("tenant", lambda payload: ""),
        ("tenant", "t\ud800"),
    ],
)
def test_wrong_options_are_named(argument: str, value: Any) -> None:
    with pytest.raises(EnqueueInvalid, match=f"'{argument}'"):
        job(work).new_job({}, **{argument: value})


def test_a_time_and_a_delay_exclude_each_other() -> None:
    with pytest.raises(EnqueueInvalid, match="run_at is given as well"):
        job(work).new_job({}, run_at=datetime.now(UTC), delay=1)


def test_naive_times_are_refused() -> None:
    with pytest.raises(NaiveDatetime, match="run_at"):
        job(work).new_job({}, run_at=datetime(2026, 1, 1))  # noqa: DTZ001


def test_the_settings_limit_payloads() -> None:
    with pytest.raises(PayloadInvalid, match="limit is 10"):
        job(work).new_job({"text": "x" * 10}, settings=Settings(max_payload=10))


def test_the_settings_may_demand_a_key() -> None:
    strict = Settings(require_idempotency=True)
    with pytest.raises(IdempotencyRequired):
        job(work).new_job({}, settings=strict)
    assert job(work).new_job({}, settings=strict, idempotency_key=None).idempotency_key is None
    assert job(idempotency_key=None)(work).new_job({}, settings=strict).idempotency_key is None
    assert job(idempotency_key="k")(work).new_job({}, settings=strict).idempotency_key == "k"


def test_the_settings_may_demand_a_tenant() -> None:
    strict = Settings(require_tenant=True)
    with pytest.raises(JobTenantRequired):
        job(work).new_job({}, settings=strict)
    with pytest.raises(JobTenantRequired):
        job(tenant="t")(work).new_job({}, settings=strict, tenant=None)
    assert job(tenant="t")(work).new_job({}, settings=strict).tenant == "t"


def test_the_function_wins_over_the_module_of_its_name() -> None:
    check = "import stoker.job, stoker.retry, stoker; print(callable(stoker.job), callable(stoker.retry), stoker.Job)"
    told = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert told.stdout == f"True True {Job}\n"


def test_importing_stoker_opens_no_driver() -> None:
    check = "import stoker, sys; print([name for name in ('psycopg', 'click', 'supervisor') if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
