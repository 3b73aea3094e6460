-- Who: every keeper. Locks: due jobs rows, SKIP LOCKED. Index: jobs_due.
with due as materialized (
    select id from stoker.jobs
    where state = 'delayed' and run_at <= clock_timestamp()
    order by run_at
    limit %(limit)s
    for no key update skip locked
)
update stoker.jobs j
set state = 'ready', pos = nextval('stoker.job_numbers'), run_at = null
from due
where j.id = due.id
returning j.queue
