-- Who: every keeper at every renewal: running rows whose host has no row. Locks: those jobs rows by id, SKIP LOCKED, cancels, then finished.
-- Index: jobs_held, one probe per host that holds rows. Not counted as an attempt; a job that loses too many hosts is dead.
with recursive holders as (
    select min(host) as host from stoker.jobs where state = 'running'
    union all
    select (select min(j.host) from stoker.jobs j where j.state = 'running' and j.host > h.host)
    from holders h where h.host is not null
),
missing as materialized (
    select h.host from holders h where h.host is not null and not exists (select from stoker.hosts k where k.id = h.host)
),
-- Looked up apart from being locked in order, and fetched by their ids below: a plan made while the table was empty must not
-- walk all jobs in that order.
lost as materialized (
    select id from stoker.jobs where state = 'running' and host = any (array(select host from missing)) limit %(limit)s
),
held as materialized (
    select j.id, j.run_no, j.host, j.attempt, j.claimed_at, j.lost + 1 as lost, c.reason,
           case when c.job_id is not null then 'cancelled' when j.lost + 1 >= %(max_lost)s then 'dead' else 'ready' end as ending,
           jsonb_build_object('type', 'HostLost', 'code', 'STOKER_WORKER_CRASHED', 'host_id', j.host, 'lost', j.lost + 1,
                              'message', format('Host %%s, which held job %%s (%%s), was lost; loss %%s of this job.',
                                                j.host, j.id, j.name, j.lost + 1)) as error
    from stoker.jobs j left join stoker.cancels c on c.job_id = j.id
    where j.id = any (array(select id from lost)) and j.state = 'running' and j.host = any (array(select host from missing))
    order by j.id
    for update of j skip locked
),
gone as (
    delete from stoker.jobs j using held h where j.id = h.id and j.id = any (array(select id from lost)) and h.ending <> 'ready'
    returning j.*, h.ending, h.lost as losses,
              case h.ending when 'dead' then h.error
                   else jsonb_build_object('type', 'Cancelled', 'message', coalesce(h.reason, ''), 'code', 'STOKER_ABORTED') end as last_error
),
forgotten as (
    delete from stoker.cancels c using held h where c.job_id = h.id and h.ending <> 'ready'
),
kept as (
    insert into stoker.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state, queue, name, tenant,
                                 idempotency_key, payload, error)
    select id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, losses, priority, ending, queue, name, tenant,
           idempotency_key, payload, last_error
    from gone
    where case ending when 'cancelled' then %(keep_cancelled)s else %(keep_dead)s end
),
back as (
    update stoker.jobs j
    set state = 'ready', attempt = greatest(j.attempt - 1, 0), lost = h.lost, error = h.error, host = null, claim_no = null
    from held h
    where j.id = h.id and j.id = any (array(select id from lost)) and h.ending = 'ready'
    returning j.queue
),
noted as (
    insert into stoker.attempts (job_id, run_no, attempt, outcome, started_at, host, error)
    select id, run_no, attempt, 'lost', claimed_at, host, error from held
    on conflict do nothing
),
told as materialized (
    select pg_notify('stoker_ready', queue) from (select distinct queue from back) b where %(notify)s
)
-- The count is what makes PostgreSQL run `told`.
select h.ending, count(*), (select count(*) from told) from held h group by h.ending
