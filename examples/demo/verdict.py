"""Compares the results table with the files on disk: nothing missing, nothing twice, nothing wrong."""

import hashlib
from pathlib import Path

from examples.demo.stage import DemoFailed, Stage

SAMPLE = 200


def check_results(demo: Stage, files: list[Path]) -> str:
    """Return what is to be said of the results; DemoFailed if they are not exactly those of the files."""
    expected = {str(path): path.stat().st_size for path in files}
    rows, paths, size, squeezed = demo.one(
        "select count(*), count(distinct path), sum(bytes)::bigint, sum(compressed)::bigint from example_results"
    )
    lost = expected.keys() - {path for (path,) in demo.conn.execute("select path from example_results")}
    if lost:
        raise DemoFailed(f"{len(lost)} files are lost, for example {min(lost)}")
    if rows != len(expected) or paths != len(expected):
        raise DemoFailed(f"{rows} results of {paths} different files, expected one for each of {len(expected)}")
    if size != sum(expected.values()):
        raise DemoFailed(f"the results count {size:,} bytes, the files have {sum(expected.values()):,}")
    _check_hashes(demo, files[:: max(1, len(files) // SAMPLE)])
    return (
        f"results: {rows:,} files, none lost, none twice; {size:,} bytes, {squeezed:,} compressed; hashes agree\n"
        f"{_runs(demo)}"
    )


def _check_hashes(demo: Stage, sample: list[Path]) -> None:
    for path in sample:
        (found,) = demo.one("select sha256 from example_results where path = %s", str(path))
        if found != hashlib.sha256(path.read_bytes()).hexdigest():
            raise DemoFailed(f"the hash of {path} is wrong")


def _runs(demo: Stage) -> str:
    runs, jobs = demo.one("select count(*), count(distinct job_id) from example_runs")
    crashes = demo.conn.execute(
        "select job_id, error->>'message' from stoker.attempts where error->>'code' = 'STOKER_WORKER_CRASHED'"
    ).fetchall()
    told = [f"  job {job_id}: {message}" for job_id, message in crashes]
    again = (
        f"runs: {runs:,} reached the results table for {jobs:,} jobs, so {runs - jobs} came twice and changed nothing"
    )
    return "\n".join([again, "crashes:" if told else "crashes: none was blamed on a job", *told])
