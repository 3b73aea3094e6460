"""The story of the demo, told with numbers from the database; exit 1 if a file was lost or counted twice."""

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from examples.app import crunch, digest_file, fetch_size, flaky
from examples.demo.progress import Progress
from examples.demo.stage import DemoFailed, Stage, stage
from examples.demo.verdict import check_results

MOST_FILES = 3000
LONG_JOBS = 6


def main(most_files: int = MOST_FILES) -> int:
    """Play it, and return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that nothing is left
    files = real_files()[:most_files]
    print(f"{len(files):,} Python files, 2 worker processes for them, 1 for the I/O-bound jobs", flush=True)
    try:
        with stage() as playing:
            try:
                play(playing, files)
            except DemoFailed:
                print(playing.log.read_text(), file=sys.stderr)
                raise
    except DemoFailed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


def real_files() -> list[Path]:
    """The sources of this virtual environment, and of the standard library if those are few."""
    folders = [Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib")]
    found = [path for folder in folders for path in sorted(folder.rglob("*.py")) if path.stat().st_size]
    return list(dict.fromkeys(found))


def play(demo: Stage, files: list[Path]) -> None:
    """Everything in order."""
    demo.until(lambda: demo.health("/readyz").get("ready"), within=60, what="every slot is ready")
    # What comes later is there when a worker is killed, however fast they are.
    first, later = files[: 2 * len(files) // 3], files[2 * len(files) // 3 :]
    digest_file.enqueue_many({"path": str(path)} for path in first)
    flaky.enqueue_many([{"odds": 0.5}] * 20)
    fetch_size.enqueue_many([{"url": f"{demo.health_url()}/metrics"}] * 100)
    work_off(demo, len(files), later)
    print(check_results(demo, files), flush=True)
    print(others(demo), flush=True)
    print(drain(demo), flush=True)


def work_off(demo: Stage, files: int, later: list[Path]) -> None:
    """Show the progress until every job has ended; kill a worker at a third of the way, before the last files come."""
    killed = 0
    started = time.monotonic()
    with Progress(total=files) as progress:

        def ended() -> bool:
            nonlocal killed
            done, left = demo.one("select (select count(*) from example_results), (select count(*) from stoker.jobs)")
            progress.show(done)
            if killed or done <= files / 3:
                return bool(killed and left == 0)
            killed = kill_a_worker(demo)
            progress.say(f"kill -9 {killed}: a worker, at {done:,} files")
            digest_file.enqueue_many({"path": str(path)} for path in later)
            return False

        demo.until(ended, within=600, what="every job has ended")
    took = time.monotonic() - started
    print(f"all jobs ended after {took:.1f} s: {files / took:,.0f} files/s", flush=True)


def kill_a_worker(demo: Stage) -> int:
    """SIGKILL for the first worker of the queue `default`; returns its pid."""
    slots = demo.until(lambda: demo.health("/status").get("slots", []), within=30, what="it tells its status")
    pid = int(next(slot["pid"] for slot in slots if slot["role"] == "worker" and slot["queue"] == "default"))
    os.kill(pid, signal.SIGKILL)
    return pid


def others(demo: Stage) -> str:
    """What became of the jobs that fail at random, and of the fetches."""
    done, attempts = demo.one(
        "select count(*) filter (where state = 'done'), sum(attempt) from stoker.finished where name = 'flaky'"
    )
    fetched, size = demo.one(
        "select count(*), sum((result->>'bytes')::bigint) from stoker.finished"
        " where name = 'fetch_size' and state = 'done'"
    )
    return f"flaky: {done} of 20 done after {attempts} attempts\nfetch_size: {fetched} of 100 done, {size:,} bytes"


def drain(demo: Stage) -> str:
    """SIGTERM while long jobs run: they look at their signal and go back into the queue."""
    ids = crunch.enqueue_many([{"seconds": 60.0}] * LONG_JOBS)
    running = "select count(distinct claim_no) from stoker.jobs where state = 'running'"
    demo.until(lambda: demo.one(running)[0] == 2, within=30, what="both workers are busy")
    started = time.monotonic()
    demo.supervisor.send_signal(signal.SIGTERM)
    try:
        code = demo.supervisor.wait(timeout=30)
    except subprocess.TimeoutExpired:
        raise DemoFailed("the supervisor did not end within 30 s of SIGTERM") from None
    took = time.monotonic() - started
    ready, uncounted = demo.one(
        "select count(*), count(*) filter (where attempt = 0) from stoker.jobs where state = 'ready' and id = any(%s)",
        ids,
    )
    handed_back = f"{ready} of {LONG_JOBS} ready again, {uncounted} of them without a counted attempt"
    if code != 0 or (ready, uncounted) != (LONG_JOBS, LONG_JOBS):
        raise DemoFailed(f"the drain ended with {code}; {handed_back}")
    return f"SIGTERM with {LONG_JOBS} one-minute jobs: exit code {code} after {took:.2f} s; {handed_back}"


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
