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
    "database.connected": "connected to PostgreSQL",
    "database.connection_lost": "lost the connection to PostgreSQL: {error}",
    "schema.migrated": "migrated the schema: {name}",
    "host.leased": "this host holds lease {host}",
    "host.judged_dead": "other hosts judged this one dead; its jobs run elsewhere, it begins anew",
    "host.dead": "host {hostname} is dead ({proof}); its jobs go back in line",
    "jobs.swept": "jobs of lost hosts were put back in line",
    "claims.late": "{jobs} jobs claimed by dead processes were put back in line",
    "claims.reaped": "a process died: {blamed} of its jobs are blamed, {back} go back in line",
    "job.lost_its_process": "job {job_id} ({job}) lost its process ({how}) and is now {state}",
    "keeper.duty_failed": "{duty} failed {failures} times in a row",
    "job.failed": "job {job_id} ({job}) failed: {error}",
    "job.dead": "job {job_id} ({job}) failed for good: {error}",
}
