-- Who: a worker's desk, for runs that returned. Locks: the claimed jobs rows, which the index gives in the order of their ids; then finished.
-- Index: jobs_pkey.
with given as materialized (
    select * from unnest(%(ids)s::bigint[], %(run_nos)s::bigint[], %(results)s::text[]) as g (id, run_no, result)
),
gone as (
    delete from stoker.jobs j using given g
    -- The ids are given twice, so that even a plan made while the table was empty fetches these rows by their ids.
    where j.id = g.id and j.run_no = g.run_no and j.host is not null and j.id = any (%(ids)s::bigint[])
    returning j.*, g.result
),
forgotten as (
    delete from stoker.cancels c where c.job_id = any (%(ids)s::bigint[]) and c.job_id in (select id from gone)
),
kept as (
    insert into stoker.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state, queue, name, tenant,
                                 idempotency_key, payload, error, result)
    select id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, 'done', queue, name, tenant,
           idempotency_key, payload, null, result::jsonb
    from gone
    where %(keep)s
)
select id, run_no, 'done' as state from gone
