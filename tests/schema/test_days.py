"""stoker.attach_day while jobs settle."""

import threading
from contextlib import suppress

from psycopg.errors import LockNotAvailable

from stoker.database import connect
from stoker.drivers.base import Holder, Settlement
from stoker.drivers.postgres import PostgresDriver
from tests.side_table import Database


def test_a_day_is_attached_while_its_rows_fall_into_the_net(db: Database) -> None:
    day = db.one("select (clock_timestamp() at time zone 'UTC')::date")
    ids = db.enqueue("n", times=2000)

    def settle() -> None:
        driver = PostgresDriver(connect(db.url, name="settler"))
        while claimed := driver.claim("default", 5, Holder(1, 1)):
            driver.settle([Settlement(job_id=c.id, run_no=c.run_no, outcome="completed") for c in claimed])
        driver.conn.close()

    settler = threading.Thread(target=settle)
    settler.start()
    # Taken back each time, so that rows go on falling into the net. Somebody may be in the way, but nothing else.
    while settler.is_alive():
        with suppress(LockNotAvailable), db.conn.transaction(force_rollback=True):
            db.conn.execute("select stoker.attach_day('done', %s)", (day,))
    settler.join()
    assert db.one("select count(*) from stoker.finished where state = 'done'") == len(ids)
