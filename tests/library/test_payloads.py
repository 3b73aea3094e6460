"""Payloads, results and error records: what goes in comes out, what cannot be stored is named or replaced."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from stoker.errors import JobTimeout, NaiveDatetime, PayloadFault, PayloadInvalid
from stoker.payloads import MAX_MESSAGE, MAX_TRACEBACK, decoder, encode, encode_result, error_record, safe_text

good_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
any_text = st.text(st.characters(exclude_categories=[]) | st.sampled_from("\x00\ud800\udfff"))
good_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | good_text,
    lambda inner: st.lists(inner) | st.dictionaries(good_text, inner),
    max_leaves=8,
)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=8,
)


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    _code: int = 0


@dataclass
class Order:
    id: int
    at: datetime
    to: Address
    blob: bytes = b""
    counts: dict[int, str] = field(default_factory=dict)


class Ping(Struct):
    host: str
    tries: list[float] = []


def refused(payload: Any, **options: Any) -> PayloadInvalid:
    with pytest.raises(PayloadInvalid) as caught:
        encode(payload, name="work", **options)
    return caught.value


# in and out


@given(st.dictionaries(good_text, good_json))
def test_dicts_come_back_as_they_were(payload: dict[str, Any]) -> None:
    assert decoder(dict, name="work")(encode(payload, name="work")) == payload


@given(st.dictionaries(any_text, any_json))
def test_whatever_is_taken_can_be_stored(payload: dict[str, Any]) -> None:
    try:
        text = encode(payload, name="work")
    except PayloadInvalid:
        return
    assert orjson.loads(text) == payload
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()


def test_a_handler_sees_numbers_of_other_languages_exactly() -> None:
    assert decoder(dict, name="work")('{"n": 18446744073709551617}') == {"n": 2**64 + 1}


@pytest.mark.parametrize("text", ['{"a":' * 2000 + "1" + "}" * 2000, '{"n": 1e999}'])
def test_what_no_handler_can_read_is_no_reason_to_try_again(text: str) -> None:
    with pytest.raises(PayloadInvalid, match="does not fit") as caught:
        decoder(dict, name="work")(text)
    assert caught.value.terminal


def test_typed_payloads_come_back_typed() -> None:
    order = Order(7, datetime(2026, 1, 2, tzinfo=UTC), Address("Main", 5), b"\x00\xff", {1: "one"})
    assert decoder(Order, name="work")(encode(order, name="work")) == order
    assert decoder(Ping, name="work")(encode(Ping("a", [1.5]), name="work")) == Ping("a", [1.5])


def test_structs_and_dataclasses_may_be_inside_dicts() -> None:
    text = encode({"order": [Address("Main")], "ping": Ping("a")}, name="work")
    assert orjson.loads(text) == {"order": [{"street": "Main", "_code": 0}], "ping": {"host": "a", "tries": []}}


def test_times_ids_and_enums_are_written_as_text() -> None:
    when = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
    payload = {"at": when, "day": date(2026, 1, 2), "id": UUID(int=1), "colour": Colour.RED, "t": (1, 2)}
    assert orjson.loads(encode(payload, name="work")) == {
        "at": "2026-03-29T02:30:00+02:00",
        "day": "2026-01-02",
        "id": "00000000-0000-0000-0000-000000000001",
        "colour": "red",
        "t": [1, 2],
    }


def test_a_literal_backslash_u0000_is_no_nul() -> None:
    assert orjson.loads(encode({"a": "\\u0000", "b": None}, name="work")) == {"a": "\\u0000", "b": None}


class Rude:
    def model_dump(self, **_: Any) -> Any:
        raise KeyError("no")


class Bounds(TypedDict):
    low: int


class Shape:
    """Behaves like a pydantic model, of which Stoker knows three methods and imports nothing."""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts

    def model_dump(self, *, mode: str = "python") -> dict[str, Any]:
        return {k: v.isoformat() if mode == "json" and isinstance(v, datetime) else v for k, v in self.facts.items()}

    @classmethod
    def model_validate_json(cls, text: str) -> "Shape":
        facts = orjson.loads(text)
        if "sides" not in facts:
            raise ValueError("sides: field required")
        return cls(**facts)


def test_models_that_validate_themselves() -> None:
    text = encode(Shape(sides=3, at=datetime(2026, 1, 1, tzinfo=UTC)), name="work")
    assert decoder(Shape, name="work")(text).facts == {"sides": 3, "at": "2026-01-01T00:00:00+00:00"}
    with pytest.raises(PayloadInvalid, match="sides: field required"):
        decoder(Shape, name="work")("{}")
    with pytest.raises(NaiveDatetime, match="at in the payload"):
        encode(Shape(at=datetime(2026, 1, 1)), name="work")  # noqa: DTZ001
    with pytest.raises(NaiveDatetime):
        encode({"shape": Shape(at=datetime(2026, 1, 1))}, name="work")  # noqa: DTZ001


def test_real_pydantic_models() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", at=(datetime, ...), price=(float, 0.0))
    made = model(at=datetime(2026, 1, 1, tzinfo=UTC))
    assert decoder(model, name="work")(encode(made, name="work")) == made
    with pytest.raises(NaiveDatetime):
        encode(model(at=datetime(2026, 1, 1)), name="work")  # noqa: DTZ001
    with pytest.raises(PayloadInvalid, match="NaN"):
        encode(model(at=datetime(2026, 1, 1, tzinfo=UTC), price=math.nan), name="work")
    with pytest.raises(PayloadInvalid, match="at"):
        decoder(model, name="work")('{"price":1}')


@pytest.mark.parametrize("text", ['{"host":1}', "{}", '{"host":"a","tries":["x"]}'])
def test_a_payload_that_does_not_fit_its_type_says_where(text: str) -> None:
    with pytest.raises(PayloadInvalid, match="does not fit") as caught:
        decoder(Ping, name="work")(text)
    assert caught.value.terminal
    assert "host" in str(caught.value) or "$.tries" in str(caught.value)


# refused at the door


@pytest.mark.parametrize(
    ("payload", "fault", "where"),
    [
        ({"a": {"b": [1, "x\x00y"]}}, "nul", "a.b[1]"),
        ({"a": {"k\x00": 1}}, "nul", "a['k\\x00']"),
        ({"a": "\ud800"}, "surrogate", "at a"),
        ({"\udfff": 1}, "surrogate", "\\udfff"),
        ({"a": [0.5, math.nan]}, "not_finite", "a[1]"),
        ({"a b": math.inf}, "not_finite", "['a b']"),
        ({"a": -math.inf}, "not_finite", "at a"),
        ({"a": 2**64}, "not_json", "a it is an integer of more than 64 bits"),
        ({"a": -(2**63) - 1}, "not_json", "64 bits"),
        ({"a": {1: "x"}}, "not_json", "key 1 "),
        ({"a": {"b": {1, 2}}}, "not_json", "a.b it is a set"),
        ({"a": b"raw"}, "not_json", "a it is a bytes"),
        ({"a": object}, "not_json", "a it is a type"),
        ({"p": Ping("a", [math.nan])}, "not_finite", "p.tries[0]"),
        (Ping("\x00"), "nul", "host"),
        ([1], "not_object", "list"),
        ("text", "not_object", "str"),
        (None, "not_object", "NoneType"),
        (7, "not_object", "int"),
    ],
)
def test_what_cannot_be_stored_is_named_with_its_path(payload: Any, fault: PayloadFault, where: str) -> None:
    error = refused(payload)
    assert error.fault == fault
    assert where in str(error)


def test_nesting_has_a_limit() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    assert "nested deeper" in str(refused(deep))
    round_and_round: dict[str, Any] = {}
    round_and_round["self"] = [round_and_round, round_and_round]
    assert "nested deeper" in str(refused(round_and_round))


def test_size_has_a_limit_in_bytes() -> None:
    fits = {"a": "ä" * 45}
    assert len(encode(fits, name="work", limit=98).encode()) == 98
    error = refused(fits, limit=97)
    assert (error.fault, "98 bytes; the limit is 97" in str(error)) == ("too_large", True)
    assert refused({"a": "x" * 2 * 2**20}).fault == "too_large"


@pytest.mark.parametrize(
    "payload",
    [
        {"at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"list": [{"at": datetime(2026, 1, 1)}]},  # noqa: DTZ001
        {"order": Order(1, datetime(2026, 1, 1), Address("a"))},  # noqa: DTZ001
        Order(1, datetime(2026, 1, 1), Address("a")),  # noqa: DTZ001
    ],
)
def test_naive_times_are_refused(payload: Any) -> None:
    with pytest.raises(NaiveDatetime, match="at in the payload for job 'work'"):
        encode(payload, name="work")


@pytest.mark.parametrize("kind", [str, int, list[int], Colour, type(open), Rude])
def test_a_type_no_payload_can_have_is_refused_when_declared(kind: Any) -> None:
    with pytest.raises(TypeError):
        decoder(kind, name="work")


def test_kinds_of_objects() -> None:
    for kind in (dict[str, int], Bounds, Ping | None, Mapping[str, Any]):
        decoder(kind, name="work")
    assert decoder(Bounds, name="work")('{"low":1}') == {"low": 1}


# results never fail a job


@given(any_json)
def test_results_are_stored_or_explained(value: Any) -> None:
    text, problem = encode_result(value)
    assert text is None or problem is None
    if text is not None:
        text.encode()
        assert not _unstorable(orjson.loads(text))


def test_results_keep_what_can_be_kept() -> None:
    assert encode_result(None) == (None, None)
    assert encode_result({"a": [1, "x\x00y\ud800"]}) == ('{"a":[1,"x\ufffdy\ufffd"]}', None)
    assert encode_result(["\\u0000"]) == ('["\\\\u0000"]', None)
    assert encode_result(Ping("\ud800")) == ('{"host":"\ufffd","tries":[]}', None)
    assert encode_result({1: math.nan}) == ('{"1":null}', None)
    assert encode_result({"at": datetime(2026, 1, 1)})[0] == '{"at":"2026-01-01T00:00:00"}'  # noqa: DTZ001


def _circular() -> list[Any]:
    circle: list[Any] = ["\ud800"]
    circle.append(circle)
    return circle


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, 2**70, Rude(), _circular(), "x" * 70_000])
def test_results_that_cannot_be_kept_are_explained(value: Any) -> None:
    text, problem = encode_result(value, limit=65_536)
    assert text is None and problem


# text


@given(any_text, st.integers(16, 60))
def test_safe_text_is_storable_and_short(text: str, limit: int) -> None:
    safe = safe_text(text, limit)
    assert len(safe.encode()) <= limit
    assert "\x00" not in safe
    if len(text.encode(errors="replace")) <= limit and not _unstorable(text):
        assert safe == text


def test_safe_text_keeps_head_and_tail() -> None:
    safe = safe_text("head" + "x" * 10_000 + "tail", 100)
    assert safe.startswith("headx") and safe.endswith("xtail") and "…" in safe


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


class Hollow(dict[str, int]):
    """Like a model of a library whose serializer has an error of its own."""

    def items(self) -> Any:
        raise ValueError("no items\x00")


def test_a_result_that_breaks_while_it_is_read_is_explained() -> None:
    text, problem = encode_result({"a": "\ud800", "b": Hollow(c=1)})
    assert text is None and problem == "it cannot be written as JSON: no items\ufffd"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_record_tells_type_message_and_place() -> None:
    record = error_record(_raised(ValueError("a\x00b\ud800")))
    assert (record["type"], record["message"]) == ("ValueError", "a\ufffdb\ufffd")
    assert "in _raised" in record["traceback"] and record["traceback"].endswith("ValueError: a\ufffdb\ufffd\n")
    assert "code" not in record


def test_coded_errors_record_their_code() -> None:
    assert error_record(JobTimeout(name="a", job_id=1, timeout=1))["code"] == "STOKER_JOB_TIMEOUT"
    assert "code" not in error_record(SystemExit(3))


def test_an_error_record_survives_any_error() -> None:
    record = error_record(_raised(Mute()))
    assert "RuntimeError" in record["message"]
    assert record["type"].endswith("Mute")


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


def test_an_error_record_survives_an_error_that_exits() -> None:
    assert "SystemExit" in error_record(_raised(Exiting()))["message"]


def test_an_error_record_has_a_limit() -> None:
    record = error_record(_raised(ValueError("ü" * 10_000_000)))
    assert len(record["message"].encode()) <= MAX_MESSAGE
    assert len(record["traceback"].encode()) <= MAX_TRACEBACK
    assert "in _raised" in record["traceback"]


def test_chained_errors_are_in_the_traceback() -> None:
    outer = ValueError("outer")
    outer.__cause__ = _raised(KeyError("inner"))
    assert "KeyError: 'inner'" in error_record(_raised(outer))["traceback"]


def _unstorable(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        return any(_unstorable(key) or _unstorable(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_unstorable, value))
