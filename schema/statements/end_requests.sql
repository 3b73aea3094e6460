-- Who: every keeper: cancels jobs that wait with a request, forgets requests whose job is gone. Locks: as cancel_job, then cancels rows.
-- Index: jobs_pkey, cancels_pkey.
with cancelled as materialized (
    select c.result from unnest(%(waiting)s::bigint[], %(reasons)s::text[]) as g (id, reason), lateral stoker.cancel(g.id, g.reason) c
),
forgotten as (
    delete from stoker.cancels c
    where c.job_id = any (%(gone)s::bigint[]) and not c.job_id = any (array(select id from stoker.jobs where id = any (%(gone)s::bigint[])))
)
select count(*) from cancelled
