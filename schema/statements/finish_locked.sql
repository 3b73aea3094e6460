-- Who: a worker's desk, for runs that returned while its open transaction held their rows. Locks: none of jobs that it does not hold; then finished.
-- Index: jobs_pkey.
with given as materialized (
    select * from unnest(%(ids)s::bigint[], %(results)s::text[]) as g (id, result)
),
gone as (
    delete from stoker.jobs j where j.id = any (%(ids)s::bigint[])
    returning j.*
),
forgotten as (
    delete from stoker.cancels c where c.job_id = any (%(ids)s::bigint[])
)
insert into stoker.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state, queue, name, tenant,
                             idempotency_key, payload, error, result)
select id, run_no + 1, created_at, transaction_timestamp(), attempt + 1, max_attempts, crashes, lost, priority, 'done', queue, name, tenant,
       idempotency_key, payload, null, g.result::jsonb
from gone left join given g using (id)
