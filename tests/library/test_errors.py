"""Every error says what happened to whom and what to do about it, and keeps secrets."""

import importlib
import inspect
import pickle
import pkgutil
from datetime import datetime
from typing import Any

import pytest

import stoker
from stoker import errors
from stoker.errors import Aborted, DriverUnavailable, Interrupted, Problem, SettingsInvalid, StokerError


def all_errors(kind: type[StokerError] = StokerError) -> list[type[StokerError]]:
    """List every error class that stands for one cause, from all modules of errors."""
    for module in pkgutil.walk_packages(stoker.__path__, "stoker."):
        if module.name.endswith("errors"):
            importlib.import_module(module.name)
    families = [all_errors(sub) or [sub] for sub in kind.__subclasses__() if ".errors" in sub.__module__]
    return sorted({found for family in families for found in family}, key=lambda found: found.__qualname__)


def made(kind: type[StokerError]) -> StokerError:
    """Make an error of a class from facts of the annotated types."""
    values: dict[str, Any] = {"fault": "nul", "value": datetime(2026, 1, 1), "problems": [Problem("a", "b", "c")]}  # noqa: DTZ001
    facts = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, f"{kind.__name__}({name})"
            sample: object = 7 if parameter.annotation in (int, float, int | str) else "widget"
            facts[name] = values.get(name, sample)
    return kind(**facts)


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_a_cause_and_a_fix(kind: type[StokerError]) -> None:
    error = made(kind)
    assert error.code.startswith("STOKER_")
    assert error.code == error.code.upper()
    assert error.cause.strip().endswith((".", "!", "?")) or "\n" in error.cause
    assert error.fix.endswith((".", "!"))
    assert str(error) == f"{error.code}: {error.cause} Fix: {error.fix}"
    assert "{" not in str(error)
    assert error.exit_code in (errors.FAILED, errors.GAVE_UP, errors.KILLED, errors.CONFIG)


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling(kind: type[StokerError]) -> None:
    error = made(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_every_cause_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in all_errors() if "code" in vars(kind)]
    assert len(codes) == len(set(codes))


def test_errors_of_configuration_end_a_command_with_78() -> None:
    assert (errors.OK, errors.GAVE_UP, errors.KILLED, errors.CONFIG) == (0, 70, 75, 78)
    for kind in (errors.SettingsInvalid, errors.SchemaTooNew, errors.AppNotImportable, errors.DriverNotImplemented):
        assert kind.exit_code == errors.CONFIG


def test_settings_invalid_lists_every_problem_on_a_line_of_its_own() -> None:
    problems = [
        Problem("stoker.toml", "grace", "first"),
        Problem("STOKER_X", "", "second\nline"),
        Problem("", "a", "third"),
    ]
    lines = str(SettingsInvalid(problems=problems)).splitlines()
    assert [line.strip() for line in lines[1:4]] == [
        "stoker.toml: grace: first",
        "STOKER_X: second line",
        "a: third",
    ]


def test_an_unavailable_database_is_named_without_its_password() -> None:
    url = "postgresql://app:s3cret@db.example:6543/orders"
    error = DriverUnavailable(url=url, error=f"connection to {url} refused")
    assert "db.example:6543/orders" in str(error)
    assert "s3cret" not in str(error) + repr(error)


def test_an_unknown_job_suggests_the_nearest_name() -> None:
    assert "'render'" in errors.JobUnknown(name="rendre", known=["render", "mail"]).fix


def test_a_payload_that_is_too_large_tells_both_sizes() -> None:
    error = errors.PayloadInvalid(name="render", fault="too_large", size=2_097_152, limit=1_048_576)
    assert "2,097,152" in error.cause
    assert "1,048,576" in error.cause


def test_an_abort_passes_handlers_that_catch_exceptions() -> None:
    for error in (Aborted(reason="drain"), Interrupted(reason="drain")):
        assert not isinstance(error, Exception)
        assert error.code == "STOKER_ABORTED"
        assert error.reason == "drain"
        assert "drain" in str(error)
        assert pickle.loads(pickle.dumps(error)).reason == "drain"
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert not issubclass(Aborted, KeyboardInterrupt)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://app:s3cret@h:1/d",
        "postgresql://app:a@s3cret@h:1/d",
        "postgresql://app:s3/cret@h/d",
        "postgresql://app:two s3cret@h/d",
        "postgresql://app@h/d?sslmode=require&password=s3cret",
        "host=h password=s3cret dbname=d",
        "host=h password = 's3cret \\' s3cret' dbname=d",
        "PASSWORD=s3cret",
        "could not connect to postgresql://app:s3cret@h/d, giving up",
        "tried postgresql://a:s3cret@h/d and postgresql://b:s3cret@h/d",
    ],
)
def test_passwords_are_hidden(text: str) -> None:
    shown = errors.redact_url(text)
    assert "s3" not in shown
    assert "cret" not in shown
    assert "***" in shown
    assert "cret" not in errors.describe_url(text)


@pytest.mark.parametrize("text", ["postgresql://app@h:1/d", "host=h dbname=d user=app", "nothing to hide", ""])
def test_what_holds_no_password_stays_as_it_is(text: str) -> None:
    assert errors.redact_url(text) == text


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://app:pw@db:6543/orders?sslmode=require", "db:6543/orders"),
        ("postgresql://db/orders", "db:5432/orders"),
        ("postgresql://app@[::1]:5/d", "[::1]:5/d"),
        ("postgresql://a:1,b:2/d", "a:1,b:2/d"),
        ("postgresql:///d?host=/run/pg&port=7", "/run/pg:7/d"),
        ("postgresql://%2Frun%2Fpg/d", "/run/pg:5432/d"),
        ("host=db port=1 dbname=d password=x", "db:1/d"),
        ("dbname=d", "localhost:5432/d"),
    ],
)
def test_a_server_is_described_by_host_port_and_database(url: str, place: str) -> None:
    assert errors.describe_url(url) == place
