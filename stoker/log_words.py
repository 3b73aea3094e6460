"""The words of every event, for people at a terminal; machines get the event's name and facts.

`{fact}` stands for a fact of the event; facts a sentence does not mention follow it as key=value.
"""

WORDS: dict[str, str] = {
    "log.dropped": "{count} log lines were dropped because nobody read them",
    "health.listening": "the health server answers at {readyz}",
    "supervisor.started": "supervisor is starting",
    "supervisor.ready": "every slot is ready",
    "supervisor.draining": "stopping: no new jobs from now on",
    "supervisor.stopped": "all children have ended",
    "worker.ready": "ready for jobs",
    "database.waiting": "waiting for PostgreSQL at {place}",
    "job.failed": "job {job_id} ({job}) failed: {error}",
    "job.dead": "job {job_id} ({job}) failed for good: {error}",
}
