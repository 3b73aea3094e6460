-- Who: a worker's desk, for runs that returned. Locks: the claimed jobs rows by id, then finished. Index: jobs_pkey.
with given as materialized (
    select * from unnest(%(ids)s::bigint[], %(run_nos)s::bigint[], %(results)s::text[]) as g (id, run_no, result)
),
held as materialized (
    select j.id, g.result from stoker.jobs j join given g on j.id = g.id and j.run_no = g.run_no
    -- Only running rows have a host; saying it this way keeps the planner off jobs_held, which holds the whole fleet's.
    -- The ids are given twice, so that even a plan made while the table was empty fetches these rows by their ids.
    where j.host is not null and j.id = any (%(ids)s::bigint[])
    order by j.id
    for update of j
),
gone as (
    delete from stoker.jobs j using held h where j.id = h.id and j.id = any (%(ids)s::bigint[])
    returning j.*, h.result
),
forgotten as (
    delete from stoker.cancels c using held h where c.job_id = h.id
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
