"""`stoker jobs` and `stoker queues` show what is stored, change what may be changed, and refuse the rest."""

from datetime import datetime

import psycopg
import pytest

from stoker.console.output import plain
from stoker.database import connect
from stoker.drivers.base import Claimed, Holder, Settlement
from stoker.drivers.postgres import PostgresDriver
from tests.console.conftest import Console

SHOWN = {
    *("id", "name", "queue", "state", "attempt", "max_attempts", "priority", "run_at", "payload", "error", "attempts"),
    *("steps", "result"),
}


@pytest.fixture
def driver(database_url: str) -> PostgresDriver:
    """A driver on the test database."""
    return PostgresDriver(connect(database_url, name="tests"))


@pytest.fixture(autouse=True)
def _closed(driver: PostgresDriver) -> object:
    yield
    driver.conn.close()


def enqueued(console: Console, name: str = "mail", payload: str = "{}", *options: str) -> int:
    return int(console("enqueue", name, payload, *options).out)


def claim(driver: PostgresDriver) -> Claimed:
    return driver.claim("default", 1, Holder(1, 1))[0]


def bury(driver: PostgresDriver, message: str = "no such address") -> int:
    held = claim(driver)
    error = {"type": "ValueError", "message": message, "traceback": "Traceback …\nValueError: " + message}
    driver.settle(
        [Settlement(job_id=held.id, run_no=held.run_no, outcome="dead_lettered", error=error, started_ago=0.5)]
    )
    return held.id


def finish(driver: PostgresDriver, result: str) -> int:
    held = claim(driver)
    driver.settle([Settlement(job_id=held.id, run_no=held.run_no, outcome="completed", result=result)])
    return held.id


def test_show_has_every_key_and_utc_times(on_database: Console) -> None:
    job_id = enqueued(on_database, "mail", '{"to": "a@b"}', "--run-at", "2035-01-31T08:00:00+02:00")
    shown = on_database("jobs", "show", job_id, "--json").json
    assert set(shown) >= SHOWN
    assert (shown["id"], shown["name"], shown["state"]) == (job_id, "mail", "delayed")
    assert shown["payload"] == {"to": "a@b"}
    assert shown["run_at"] == "2035-01-31T06:00:00Z"
    assert (shown["attempts"], shown["steps"], shown["result"]) == ([], [], None)


def test_show_tells_people_about_attempts_and_tracebacks(on_database: Console, driver: PostgresDriver) -> None:
    enqueued(on_database)
    job_id = bury(driver)
    sheet = on_database("jobs", "show", job_id)
    assert sheet.code == 0
    assert f"Job {job_id}: mail on queue default, dead" in sheet.out
    assert "Attempt 1 (run 1): dead_lettered" in sheet.out
    assert "ValueError: no such address" in sheet.out
    assert "    Traceback …" in sheet.out
    shown = on_database("jobs", "show", job_id, "--json").json
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["dead_lettered"]
    assert datetime.fromisoformat(shown["attempts"][0]["ended_at"]).tzinfo is not None


def test_show_gives_the_result(on_database: Console, driver: PostgresDriver) -> None:
    enqueued(on_database)
    job_id = finish(driver, '{"sent": true}')
    assert on_database("jobs", "show", job_id, "--json").json["result"] == {"sent": True}
    assert 'result    {"sent": true}' in on_database("jobs", "show", job_id).out


def test_numbers_that_json_libraries_dislike_do_not_hide_a_job(on_database: Console, database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        conn.execute("""select stoker.enqueue('x', '{"n": 123456789012345678901234567890}')""")
    assert on_database("jobs", "ls", "--json").json[0]["payload"]["n"] > 2**64


def test_ls_lists_the_newest_first_and_filters(on_database: Console, driver: PostgresDriver) -> None:
    first, second = enqueued(on_database, "a"), enqueued(on_database, "b", "{}", "--queue", "io")
    third = enqueued(on_database, "c", "{}", "--delay", "1h")
    bury(driver)

    def ids(*options: object) -> list[int]:
        return [row["id"] for row in on_database("jobs", "ls", "--json", *options).json]

    assert ids() == [third, second, first]
    assert ids("--queue", "io") == [second]
    assert ids("--name", "c") == [third]
    assert ids("--state", "dead") == [first]
    assert ids("--state", "dead", "--state", "ready") == [second, first]
    assert ids("--limit", 1) == [third]
    assert ids("--before", second) == [first]
    assert on_database("jobs", "ls", "--state", "lost").code == 2
    assert on_database("jobs", "ls", "--limit", "0").code == 2


def test_ls_is_a_table_that_cuts_what_is_long_and_obeys_nothing(on_database: Console, driver: PostgresDriver) -> None:
    enqueued(on_database, "mail\x1b[31m", '{"text": "%s"}' % ("x" * 500))
    bury(driver, message="[bold]not markup[/bold]")
    told = on_database("jobs", "ls", "--limit", 1)
    head, row = told.out.splitlines()
    assert head.split() == ["ID", "NAME", "QUEUE", "STATE", "ATTEMPT", "TIME", "PAYLOAD", "ERROR"]
    assert "\x1b" not in told.out
    assert "mail\\x1b[31m" in row
    assert "[bold]not markup[/bold]" in row
    assert "x…" in row
    assert len(row) < 250
    assert "--before" in told.err


def test_plain_text_keeps_lines_and_tabs() -> None:
    assert plain("a\tb\nc\x07\x9b") == "a\tb\nc\\x07\\x9b"


def test_retry_puts_dead_jobs_back_and_refuses_the_others(on_database: Console, driver: PostgresDriver) -> None:
    enqueued(on_database)
    dead = bury(driver)
    enqueued(on_database)
    done = finish(driver, "1")
    told = on_database("jobs", "retry", dead, done, 999_999)
    assert told.code == 1
    assert told.out == f"{dead} is back in line\n"
    assert f"STOKER_JOB_NOT_RETRYABLE: Job {done} cannot be put back in line: it is done" in told.err
    assert "STOKER_JOB_NOT_FOUND: There is no job 999999" in told.err
    assert on_database("jobs", "show", dead, "--json").json["state"] == "ready"
    again = on_database("jobs", "retry", dead)
    assert (again.code, again.out) == (1, "")
    assert "it is ready" in again.err


def test_cancel_ends_waiting_jobs_and_asks_running_ones(on_database: Console, driver: PostgresDriver) -> None:
    running, waiting = enqueued(on_database), enqueued(on_database)
    claim(driver)
    told = on_database("jobs", "cancel", running, waiting, "--reason", "not needed")
    assert told.code == 0
    assert told.out == f"{running} is running and was asked to end\n{waiting} is cancelled\n"
    assert driver.cancel_requests([running]) == {running: "not needed"}
    shown = on_database("jobs", "show", waiting, "--json").json
    assert (shown["state"], shown["error"]["message"]) == ("cancelled", "not needed")
    again = on_database("jobs", "cancel", waiting)
    assert again.code == 1
    assert "STOKER_JOB_NOT_CANCELLABLE" in again.err


@pytest.mark.parametrize("job_id", ["0", "12345", str(2**63), str(10**30)])
def test_a_number_that_is_no_job_is_told_so(on_database: Console, job_id: str) -> None:
    told = on_database("jobs", "show", job_id)
    assert told.code == 1
    assert f"There is no job {job_id}" in told.err


def test_queues_are_counted_as_they_are_now(on_database: Console, driver: PostgresDriver) -> None:
    assert on_database("queues", "ls", "--json").json == []
    enqueued(on_database)
    bury(driver)
    enqueued(on_database, "a", "{}")
    enqueued(on_database, "a", "{}", "--delay", "1h")
    enqueued(on_database, "a", "{}", "--queue", "io")
    driver.conn.execute("insert into stoker.queues (queue) values ('idle')")
    default, idle, io = on_database("queues", "ls", "--json").json
    assert {key: default[key] for key in ("queue", "ready", "delayed", "running", "dead")} == {
        "queue": "default",
        "ready": 1,
        "delayed": 1,
        "running": 0,
        "dead": 1,
    }
    assert 0 <= default["oldest_ready_seconds"] < 60
    assert (io["queue"], io["ready"], io["dead"]) == ("io", 1, 0)
    assert (idle["queue"], idle["ready"], idle["oldest_ready_seconds"]) == ("idle", 0, None)
    claim(driver)
    table = on_database("queues", "ls").out.splitlines()
    assert table[1].split() == ["default", "0", "1", "1", "0", "0", "1"]


def test_show_says_of_a_suspect_that_it_runs_alone(on_database: Console, driver: PostgresDriver) -> None:
    job_id = enqueued(on_database)
    held = claim(driver)
    assert "suspect" not in on_database("jobs", "show", job_id).out
    driver.settle([Settlement(job_id=held.id, run_no=held.run_no, outcome="suspected")])
    assert "suspect   runs alone" in on_database("jobs", "show", job_id).out
    assert on_database("jobs", "show", job_id, "--json").json["suspect"] is True
