-- Who: every keeper: cancels jobs that wait with a request, forgets requests whose job is gone. Locks: as cancel_job, then cancels rows.
-- Index: jobs_pkey, cancels_pkey. Tells nobody: a keeper would hear of its own request again, for as long as somebody has the row locked.
with cancelled as materialized (
    select c.result from unnest(%(waiting)s::bigint[], %(reasons)s::text[]) as g (id, reason), lateral stoker.cancel(g.id, g.reason, false) c
),
forgotten as (
    delete from stoker.cancels c
    where c.job_id = any (%(gone)s::bigint[]) and not c.job_id = any (array(select id from stoker.jobs where id = any (%(gone)s::bigint[])))
)
select count(*) from cancelled
