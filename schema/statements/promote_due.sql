-- Who: every keeper. Locks: due jobs rows, SKIP LOCKED. Index: jobs_due.
-- run_at stays: since then the job is ready. The clock is read in a sub-select because a volatile function is no index condition;
-- the lower bound, always true, makes a range of it, which the planner takes for few rows.
with due as materialized (
    select id from stoker.jobs
    where state = 'delayed' and run_at > '-infinity' and run_at <= (select clock_timestamp())
    order by run_at
    limit %(limit)s
    for no key update skip locked
),
-- A step of its own: the update may take the rows in any order.
numbered as materialized (
    select id, nextval('stoker.job_numbers') as pos from due
)
update stoker.jobs j
set state = 'ready', pos = n.pos
from numbered n
-- The ids once more as an array, so that even a plan made while the table was empty fetches these rows by them.
where j.id = n.id and j.id = any (array(select id from due))
returning j.queue
