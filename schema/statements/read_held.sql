-- Who: a keeper, before it settles for a dead child. Locks: none; the settlement is fenced by run_no. Index: jobs_held.
-- Ordered afterwards: a plan made while the table was empty must not walk all jobs in that order.
with held as materialized (
    select id, run_no, name, attempt, max_attempts, crashes, claimed_at
    from stoker.jobs
    where state = 'running' and host = %(host)s and claim_no = any (%(claim_nos)s::bigint[])
)
select id, run_no, name, attempt, max_attempts, crashes, extract(epoch from clock_timestamp() - claimed_at)::float8
from held
where id > %(after)s
order by id
limit %(limit)s
