-- Who: the library and the CLI: a dead or cancelled job back in line with all its attempts. Locks: the finished row, then the new jobs row,
-- cancels. Index: finished_id. run_at: since then it is ready. A live twin with the same key wins: the finished row stays and the twin's id is the answer.
with chosen as materialized (
    select * from stoker.finished where id = %(id)s and state in ('dead', 'cancelled')
    order by finished_at desc limit 1 for update
),
back as (
    insert into stoker.jobs (id, pos, run_no, queue, name, state, priority, max_attempts, tenant, idempotency_key, payload, error, created_at, run_at)
    select id, nextval('stoker.job_numbers'), run_no, queue, name, 'ready', priority, max_attempts, tenant, idempotency_key, payload, error, created_at,
           clock_timestamp()
    from chosen c
    -- Seen beforehand: who would conflict with a live twin would wait for whoever is changing it.
    where not exists (
        select from stoker.jobs j
        where j.name = c.name and coalesce(j.tenant, '') = coalesce(c.tenant, '') and j.idempotency_key = c.idempotency_key
    )
    on conflict do nothing
    returning id, queue
),
gone as (
    delete from stoker.finished f using back b where f.id = b.id and f.state in ('dead', 'cancelled')
),
-- A request that came too late for the last run must not end the next one.
forgotten as (
    delete from stoker.cancels c using back b where c.job_id = b.id
),
told as materialized (
    select pg_notify('stoker_ready', queue) from back where %(notify)s
)
-- The count is what makes PostgreSQL run `told`.
select b.id from back b cross join (select count(*) from told) t
union all
select j.id from stoker.jobs j join chosen c
    on j.name = c.name and coalesce(j.tenant, '') = coalesce(c.tenant, '') and j.idempotency_key = c.idempotency_key
where not exists (select 1 from back)
