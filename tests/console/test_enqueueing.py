"""`stoker enqueue` prints an id, or says what is wrong and enqueues nothing."""

from collections.abc import Callable

import psycopg
import pytest

from tests.console.conftest import Console

WriteApp = Callable[[str, str], str]

SHOP = """
from stoker import Retry, job

print("importing the shop")

@job(queue="reports", priority=3, retry=Retry(attempts=7), idempotency_key=lambda p: f"report:{p['id']}")
def render(payload: dict) -> None: ...
"""


def rows(url: str, columns: str = "*") -> list[tuple[object, ...]]:
    with psycopg.connect(url) as conn:
        return conn.execute(f"select {columns} from stoker.jobs order by id").fetchall()


def test_a_name_is_enough_where_no_application_is_configured(on_database: Console, database_url: str) -> None:
    done = on_database("enqueue", "anything", '{"id": 7}')
    assert done.code == 0
    assert done.out.strip().isdigit()
    assert rows(database_url, "id, name, queue, payload, state") == [
        (int(done.out), "anything", "default", {"id": 7}, "ready")
    ]


def test_every_option_reaches_the_row(on_database: Console, database_url: str) -> None:
    options = [
        "--queue",
        "io",
        "--priority",
        "-2",
        "--key",
        "k",
        "--tenant",
        "t",
        "--run-at",
        "2035-01-31T08:00:00+02:00",
    ]
    assert on_database("enqueue", "mail", "{}", *options).code == 0
    found = rows(database_url, "queue, priority, idempotency_key, tenant, state, run_at at time zone 'UTC'")
    assert [(*row[:5], str(row[5])) for row in found] == [("io", -2, "k", "t", "delayed", "2035-01-31 06:00:00")]


def test_a_delay_is_counted_from_now(on_database: Console, database_url: str) -> None:
    assert on_database("enqueue", "mail", "--delay", "5m").code == 0
    assert rows(database_url, "state, payload, run_at - created_at between '4m' and '6m'") == [("delayed", {}, True)]


def test_the_declaration_counts_where_the_application_is_known(
    on_database: Console, database_url: str, write_app: WriteApp
) -> None:
    app = write_app("shop_a", SHOP)
    first = on_database("enqueue", "render", '{"id": 1}', "--app", app)
    assert (first.code, first.out.strip().isdigit()) == (0, True)
    assert "importing the shop" in first.err
    assert rows(database_url, "queue, priority, max_attempts, idempotency_key") == [("reports", 3, 7, "report:1")]
    assert on_database("enqueue", "render", '{"id": 1}', "--app", app).out == first.out
    again = on_database("enqueue", "render", '{"id": 1}', "--app", app, "--on-conflict", "error")
    assert again.code == 1
    assert again.err.startswith("STOKER_JOB_DUPLICATE: ")


def test_a_misspelt_job_of_a_known_application_is_refused_with_a_suggestion(
    on_database: Console, database_url: str, write_app: WriteApp
) -> None:
    done = on_database("enqueue", "rendre", "{}", "--app", write_app("shop_b", SHOP))
    assert (done.code, done.out) == (1, "")
    assert "STOKER_JOB_UNKNOWN" in done.err
    assert "Did you mean 'render'?" in done.err
    assert rows(database_url) == []


def test_an_application_that_does_not_import_ends_with_78(on_database: Console, write_app: WriteApp) -> None:
    done = on_database("enqueue", "x", "--app", write_app("shop_c", "import no_such_module_anywhere"))
    assert done.code == 78
    assert "STOKER_APP_NOT_IMPORTABLE" in done.err
    assert "no_such_module_anywhere" in done.err
    assert "Traceback" not in done.err


def test_a_dash_reads_standard_input(on_database: Console, database_url: str) -> None:
    assert on_database("enqueue", "x", "-", stdin='{"name": "Zoë"}'.encode()).code == 0
    assert rows(database_url, "payload") == [({"name": "Zoë"},)]


@pytest.mark.parametrize(
    ("payload", "code", "said"),
    [
        ("{id: 7}", "STOKER_PAYLOAD_INVALID", "is not JSON"),
        ("", "STOKER_PAYLOAD_INVALID", "is not JSON"),
        ("[" * 100_000, "STOKER_PAYLOAD_INVALID", "is not JSON"),
        ("[1]", "STOKER_PAYLOAD_INVALID", "is not a JSON object"),
        ('{"a": "x\\u0000y"}', "STOKER_PAYLOAD_INVALID", "NUL"),
        ('{"a": "\\ud800"}', "STOKER_PAYLOAD_INVALID", "surrogate"),
        ('{"a": NaN}', "STOKER_PAYLOAD_INVALID", "NaN"),
        ('{"a": 123456789012345678901234567890}', "STOKER_PAYLOAD_INVALID", "64 bits"),
    ],
)
def test_a_payload_that_cannot_be_stored_is_refused(
    on_database: Console, database_url: str, payload: str, code: str, said: str
) -> None:
    done = on_database("enqueue", "x", payload)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{code}: ")
    assert said in done.err
    assert "\nFix: " in done.err
    assert rows(database_url) == []


def test_a_payload_of_two_megabytes_is_refused(on_database: Console, database_url: str) -> None:
    done = on_database("enqueue", "x", "-", stdin=b'{"a": "' + b"x" * 2**21 + b'"}')
    assert done.code == 1
    assert "the limit is 1,048,576" in done.err
    assert len(done.err) < 1000
    assert rows(database_url) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--run-at", "2035-01-31T08:00:00"], "STOKER_NAIVE_DATETIME: --run-at is 2035-01-31T08:00:00"),
        (["--run-at", "2035-01-31"], "STOKER_NAIVE_DATETIME"),
        (["--run-at", "tomorrow"], "STOKER_ENQUEUE_INVALID"),
        (["--delay", "soon"], "STOKER_ENQUEUE_INVALID"),
        (["--delay", "5m", "--run-at", "2035-01-31T08:00:00Z"], "STOKER_ENQUEUE_INVALID"),
        (["--priority", "99999"], "STOKER_ENQUEUE_INVALID"),
        (["--key", ""], "STOKER_ENQUEUE_INVALID"),
        (["--queue", "q" * 300], "STOKER_ENQUEUE_INVALID"),
        (["--on-conflict", "perhaps"], "STOKER_ENQUEUE_INVALID"),
    ],
)
def test_an_option_that_cannot_work_is_refused(
    on_database: Console, database_url: str, options: list[str], said: str
) -> None:
    done = on_database("enqueue", "x", "{}", *options)
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert rows(database_url) == []


def test_a_name_that_cannot_be_stored_is_refused(on_database: Console) -> None:
    assert on_database("enqueue", "n" * 300).err.startswith("STOKER_ENQUEUE_INVALID: ")
    assert on_database("enqueue", "").err.startswith("STOKER_ENQUEUE_INVALID: ")


def test_usage_errors_end_with_2(console: Console) -> None:
    assert console("enqueue").code == 2
    assert console("enqueue", "x", "{}", "--priority", "high").code == 2
    assert console("enqueue", "x", "{}", "--nonsense").code == 2
    assert console("no-such-command").code == 2
