-- Who: a keeper, for deaths that are not yet written into their job's row. Locks: those jobs rows by id that nobody runs, SKIP LOCKED. Index: jobs_pkey.
select j.id, j.run_no, j.name, j.attempt, j.max_attempts, j.crashes
from stoker.jobs j
where j.id = any (array(select job_id from stoker.suspects)) and j.host is null
order by j.id
limit %(limit)s
for no key update skip locked
