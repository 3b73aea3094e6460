"""An application: a CPU-bound job over files, an I/O-bound async one, and one that fails at random.

`make run-worker` runs it. From a second shell:

.venv/bin/stoker enqueue digest_file '{"path": "README.md"}' --app examples.app
.venv/bin/stoker jobs ls
"""

import asyncio
import hashlib
import random
import re
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.types.json import Jsonb

from stoker import Ctx, Retry, job, middleware, on_start, on_stop
from stoker.session import current_session

TABLES = """
    create table if not exists example_results (
        job_id bigint primary key, path text not null, sha256 text not null, bytes bigint not null,
        compressed bigint not null, words jsonb not null
    );
    create table if not exists example_runs (
        job_id bigint not null, run_no bigint not null, at timestamptz not null default clock_timestamp()
    );
"""
SAVE = """
    with run as (insert into example_runs (job_id, run_no) values (%(job_id)s, %(run_no)s))
    insert into example_results (job_id, path, sha256, bytes, compressed, words)
    values (%(job_id)s, %(path)s, %(sha256)s, %(bytes)s, %(compressed)s, %(words)s)
    on conflict (job_id) do nothing
"""


class Database:
    """The connection of this worker process, opened after the fork (none survives one) and again when it broke."""

    conn: psycopg.Connection[Any] | None = None

    @classmethod
    def get(cls) -> psycopg.Connection[Any]:
        """A connection that works as far as one can tell."""
        if cls.conn is None or cls.conn.closed:
            cls.conn = psycopg.connect(current_session().settings.database_url or "", autocommit=True)
        return cls.conn


@on_start
def make_tables() -> None:
    """Runs in every worker before its first job. While it fails the worker is not ready and is started again."""
    prepare(Database.get())


@on_stop
def disconnect() -> None:
    """Runs in every worker after its last job."""
    if Database.conn is not None:
        Database.conn.close()


@middleware
def timed(ctx: Ctx) -> Iterator[None]:
    """Log how long every run took, however it ended."""
    started = time.monotonic()
    try:
        yield
    finally:
        ctx.logger.debug("took %.3f s", time.monotonic() - started)


@dataclass
class File:
    """What `digest_file` is about."""

    path: str


@job(retry=Retry(attempts=5, base=0.5), timeout="1m")
def digest_file(file: File, ctx: Ctx) -> dict[str, int]:
    """CPU-bound: hash a file, compress it, count its words, and save that once, however often it runs.

    A job runs at least once: this process may be killed after the insert and before Stoker hears of it. The job's id
    makes the effect idempotent: the second run finds the row and leaves it.
    """
    data = Path(file.path).read_bytes()
    words = Counter(re.findall(rb"[A-Za-z_]{3,}", data)).most_common(5)
    facts: dict[str, Any] = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "compressed": len(zlib.compress(data, 9)),
        "words": Jsonb({word.decode(): count for word, count in words}),
    }
    Database.get().execute(SAVE, {"job_id": ctx.job_id, "run_no": ctx.run_no, "path": file.path, **facts})
    return {"bytes": facts["bytes"], "compressed": facts["compressed"]}


@job(queue="io", retry=Retry(attempts=3), timeout="10s")
async def fetch_size(page: dict[str, str]) -> dict[str, Any]:
    """I/O-bound: ask a web server for a page. With `[queues.io] concurrency = 50` fifty of them wait at a time."""
    url = urlsplit(page["url"])
    secure = url.scheme == "https"
    reader, writer = await asyncio.open_connection(url.hostname, url.port or (443 if secure else 80), ssl=secure)
    try:
        writer.write(f"GET {url.path or '/'} HTTP/1.0\r\nHost: {url.netloc}\r\n\r\n".encode())
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        return {"status": int(head.split(maxsplit=2)[1]), "bytes": len(body)}
    finally:
        writer.close()
        await writer.wait_closed()


@job(retry=Retry(attempts=10, base=0.2, cap=2.0))
def flaky(payload: dict[str, float], ctx: Ctx) -> str:
    """Fails at random, three times out of four unless `odds` says otherwise, and is tried again a little later."""
    if random.random() < payload.get("odds", 0.75):
        raise ConnectionError(f"no luck in attempt {ctx.attempt}")
    return f"worked in attempt {ctx.attempt}"


@job
def crunch(payload: dict[str, float], ctx: Ctx) -> int:
    """Keeps a CPU busy for some seconds and looks at its signal: a deploy hands it back instead of waiting for it."""
    ends, rounds = time.monotonic() + payload["seconds"], 0
    while time.monotonic() < ends:
        ctx.signal.raise_if_aborted()
        hashlib.sha256(b"x" * 100_000).digest()
        rounds += 1
    return rounds


def prepare(conn: psycopg.Connection[Any]) -> None:
    """Make the tables; `if not exists` alone would let two workers collide."""
    with conn.transaction():
        conn.execute("select pg_advisory_xact_lock(hashtext('example_results'))")
        conn.execute(TABLES)
