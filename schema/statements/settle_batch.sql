-- Who: a worker's desk and the keeper, for every ending but a plain return. Locks: the claimed jobs rows by id, cancels, then finished.
-- Index: jobs_pkey. A job that would wait again ends as cancelled when somebody asked for that meanwhile. An error of a cancel that
-- has no type adds to who asked for it. The stacks of a process are kept with the attempt alone: rows that are read often stay small.
with given as materialized (
    select * from unnest(%(ids)s::bigint[], %(run_nos)s::bigint[], %(outcomes)s::text[], %(delays)s::float8[], %(errors)s::text[],
                         %(crashed)s::bool[], %(started_ago)s::float8[])
        as g (id, run_no, outcome, delay, error, crashed, started_ago)
),
held as materialized (
    select j.id, j.run_no, j.attempt, j.host, g.delay, g.crashed, g.started_ago, g.outcome, said.error as said,
           case when g.outcome <> 'cancelled' or g.error::jsonb ? 'type' then g.error::jsonb else said.error || g.error::jsonb end as error,
           case when g.outcome in ('dead_lettered', 'cancelled') then g.outcome
                when c.job_id is not null then 'cancelled'
                else g.outcome end as ending
    from stoker.jobs j join given g on j.id = g.id and j.run_no = g.run_no left join stoker.cancels c on c.job_id = j.id,
         lateral (select jsonb_build_object('type', 'Cancelled', 'message', coalesce(c.reason, ''), 'code', 'STOKER_ABORTED') as error) said
    -- Only running rows have a host; saying it this way keeps the planner off jobs_held, which holds the whole fleet's.
    -- The ids are given twice, so that even a plan made while the table was empty fetches these rows by their ids.
    where j.host is not null and j.id = any (%(ids)s::bigint[])
    order by j.id
    for update of j
),
gone as (
    delete from stoker.jobs j using held h
    where j.id = h.id and j.id = any (%(ids)s::bigint[]) and h.ending in ('dead_lettered', 'cancelled')
    returning j.*, h.ending, h.crashed, coalesce(h.error - 'stack', h.said) as last_error
),
forgotten as (
    delete from stoker.cancels c using held h where c.job_id = h.id and h.ending in ('dead_lettered', 'cancelled')
),
kept as (
    insert into stoker.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state, queue, name, tenant,
                                 idempotency_key, payload, error)
    select id, run_no, created_at, claimed_at, attempt, max_attempts, crashes + crashed::int, lost, priority,
           case ending when 'cancelled' then 'cancelled' else 'dead' end, queue, name, tenant, idempotency_key, payload, last_error
    from gone
    where case ending when 'cancelled' then %(keep_cancelled)s else %(keep_dead)s end
),
back as (
    update stoker.jobs j
    set state = case when h.delay > 0 then 'delayed' else 'ready' end,
        run_at = case when h.delay > 0 then clock_timestamp() + make_interval(secs => h.delay) end,
        pos = case when h.ending in ('interrupted', 'handed_back', 'suspected') then j.pos else nextval('stoker.job_numbers') end,
        attempt = case when h.ending = 'retried' then j.attempt else greatest(j.attempt - 1, 0) end,
        put_off = case when h.ending = 'postponed' then j.put_off + 1 else 0 end,
        crashes = j.crashes + h.crashed::int,
        error = coalesce(h.error - 'stack', j.error),
        -- Whoever ended by itself is a suspect no more; whoever died alone does not take neighbours with it again.
        suspect = h.ending = 'suspected' or (j.suspect and (h.crashed or h.ending <> 'retried')),
        host = null, claim_no = null
    from held h
    where j.id = h.id and j.id = any (%(ids)s::bigint[]) and h.ending in ('retried', 'interrupted', 'postponed', 'handed_back', 'suspected')
    returning j.id, j.run_no, j.state, j.queue
),
noted as (
    insert into stoker.attempts (job_id, run_no, attempt, outcome, started_at, host, error)
    select id, run_no, attempt, outcome, clock_timestamp() - make_interval(secs => started_ago), host, error
    from held
    where error is not null and outcome <> 'handed_back'
    on conflict do nothing
),
pruned as (
    delete from stoker.attempts a using held h where a.job_id = h.id and a.run_no <= h.run_no - %(keep_attempts)s
),
told as materialized (
    select pg_notify(case state when 'ready' then 'stoker_ready' else 'stoker_due' end, case state when 'ready' then queue else '' end)
    from (select distinct state, queue from back) b
    where %(notify)s
)
-- The count is what makes PostgreSQL run `told`.
select b.id, b.run_no, b.state from back b cross join (select count(*) from told) t
union all
select id, run_no, case ending when 'cancelled' then 'cancelled' else 'dead' end from gone
