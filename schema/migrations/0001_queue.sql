-- The queue: live jobs, finished jobs, attempts, hosts, cancel requests, and the functions other languages call.

create sequence stoker.job_numbers as bigint;

create table stoker.jobs (
    id              bigint      not null primary key default nextval('stoker.job_numbers'),
    pos             bigint      not null,
    run_no          bigint      not null default 0,
    host            bigint,
    claim_no        bigint,
    run_at          timestamptz,
    created_at      timestamptz not null default clock_timestamp(),
    claimed_at      timestamptz,
    attempt         integer     not null default 0,
    max_attempts    integer     not null default 20,
    crashes         integer     not null default 0,
    lost            integer     not null default 0,
    put_off         integer     not null default 0,
    priority        smallint    not null default 0,
    state           text        not null default 'ready',
    queue           text        not null,
    name            text        not null,
    tenant          text,
    idempotency_key text,
    payload         jsonb       not null,
    error           jsonb,
    constraint jobs_state check (state in ('ready', 'delayed', 'running', 'suspended', 'blocked')),
    -- A claim begins behind a place, the first one behind 0.
    constraint jobs_pos_is_positive check (pos > 0),
    constraint jobs_running_is_held check ((state = 'running') = (host is not null and claim_no is not null)),
    constraint jobs_delayed_is_due check (state <> 'delayed' or run_at is not null),
    constraint jobs_payload_is_object check (jsonb_typeof(payload) = 'object'),
    -- What the library refuses comes from other languages too: it would be served by nobody, break an index, or be no datetime.
    constraint jobs_queue_can_be_served check (queue ~ '^[A-Za-z0-9_.-]{1,63}$'),
    constraint jobs_name_is_short check (octet_length(name) between 1 and 200),
    constraint jobs_run_at_is_near check (run_at > '0002-01-01' and run_at < '9999-01-01')
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- claim_batch
create index jobs_ready on stoker.jobs (queue, priority, pos) where state = 'ready';
-- promote_due, next_due
create index jobs_due on stoker.jobs (run_at) where state = 'delayed';
-- release_claims, sweep_lost, read_held
create index jobs_held on stoker.jobs (host, claim_no) where state = 'running';
-- unpark_known
create index jobs_put_off on stoker.jobs (name) where put_off > 0 and state = 'delayed';
create unique index jobs_key on stoker.jobs (name, coalesce(tenant, ''), idempotency_key) where idempotency_key is not null;

create table stoker.finished (
    id              bigint      not null,
    run_no          bigint      not null,
    finished_at     timestamptz not null default clock_timestamp(),
    created_at      timestamptz not null,
    claimed_at      timestamptz,
    attempt         integer     not null,
    max_attempts    integer     not null,
    crashes         integer     not null,
    lost            integer     not null,
    priority        smallint    not null,
    state           text        not null,
    queue           text        not null,
    name            text        not null,
    tenant          text,
    idempotency_key text,
    payload         jsonb       not null,
    error           jsonb,
    result          jsonb
) partition by list (state);

create index finished_id on stoker.finished (id);

-- The default partitions are nets under the days made ahead: a settlement never fails for want of a partition.
create table stoker.finished_done partition of stoker.finished for values in ('done') partition by range (finished_at);
create table stoker.finished_dead partition of stoker.finished for values in ('dead') partition by range (finished_at);
create table stoker.finished_cancelled partition of stoker.finished for values in ('cancelled') partition by range (finished_at);
create table stoker.finished_done_default partition of stoker.finished_done default;
create table stoker.finished_dead_default partition of stoker.finished_dead default;
create table stoker.finished_cancelled_default partition of stoker.finished_cancelled default;
create index finished_dead_queue on stoker.finished_dead (queue);

create table stoker.attempts (
    job_id     bigint      not null,
    run_no     bigint      not null,
    attempt    integer     not null,
    outcome    text        not null,
    started_at timestamptz,
    ended_at   timestamptz not null default clock_timestamp(),
    host       bigint,
    error      jsonb,
    primary key (job_id, run_no)
);
create index attempts_ended on stoker.attempts (ended_at);

create table stoker.cancels (
    job_id       bigint      not null primary key,
    reason       text        not null default '',
    requested_at timestamptz not null default clock_timestamp()
);

-- Deaths of processes that held the row of their job by a lock alone, until somebody can write them into that row.
-- A job that is in here is not claimed. Almost always empty.
create table stoker.suspects (
    job_id   bigint      not null,
    host     bigint      not null,
    claim_no bigint      not null,
    run_no   bigint      not null,
    death    jsonb       not null,
    died_at  timestamptz not null default clock_timestamp(),
    primary key (job_id, host, claim_no)
);

create table stoker.hosts (
    id            bigint      not null primary key,
    renewals      bigint      not null default 0,
    hostname      text        not null,
    machine       text        not null,
    pid_namespace text        not null,
    lock_path     text        not null,
    lock_inode    text        not null,
    started_at    timestamptz not null default clock_timestamp(),
    renewed_at    timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create table stoker.queues (
    queue      text        not null primary key,
    depth      jsonb       not null default '{}',
    dead       bigint      not null default 0,
    oldest     timestamptz,
    sampled_at timestamptz not null default clock_timestamp()
);

-- Enqueue one job; for SQL, triggers and other languages, and for the library within a caller's transaction.
-- With a key that a live job holds: 'dedupe' returns that job, 'error' raises unique_violation, 'replace' updates it while it waits and
-- nobody has it locked: a locked one counts as running. No waiting, except for another transaction that is inserting the same key.
-- Loops because between a conflict and the look at the winner the winner may have ended. No sequential scan, because a plan that was made while
-- the table was empty is kept.
create function stoker.enqueue(
    p_name text,
    p_payload jsonb default '{}',
    p_queue text default 'default',
    p_priority integer default 0,
    p_run_at timestamptz default null,
    p_delay double precision default null,
    p_max_attempts integer default 20,
    p_idempotency_key text default null,
    p_tenant text default null,
    p_on_conflict text default 'dedupe',
    p_notify boolean default true,
    out id bigint,
    out created boolean
) language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    v_due timestamptz := coalesce(p_run_at, clock_timestamp() + make_interval(secs => p_delay));
    v_state text := case when v_due > clock_timestamp() then 'delayed' else 'ready' end;
begin
    if p_on_conflict is null or p_on_conflict not in ('dedupe', 'error', 'replace') then
        raise exception 'on_conflict must be dedupe, error or replace, not %', p_on_conflict using errcode = 'invalid_parameter_value';
    end if;
    if p_idempotency_key is null then
        -- Without ON CONFLICT, which looks into the unique indexes twice.
        id := nextval('stoker.job_numbers');
        created := true;
        insert into stoker.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, payload)
        values (id, id, p_queue, p_name, v_state, p_priority, case when v_state = 'delayed' then v_due end, p_max_attempts, p_tenant, p_payload);
    end if;
    while id is null loop
        -- Looking first spares the sequence a number for every duplicate, and waiting for whoever is changing the row.
        select j.id, false into id, created from stoker.jobs j
        where j.name = p_name and coalesce(j.tenant, '') = coalesce(p_tenant, '') and j.idempotency_key = p_idempotency_key;
        if id is null then
            id := nextval('stoker.job_numbers');
            insert into stoker.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, idempotency_key, payload)
            values (id, id, p_queue, p_name, v_state, p_priority, case when v_state = 'delayed' then v_due end, p_max_attempts,
                    p_tenant, p_idempotency_key, p_payload)
            on conflict do nothing;
            created := found;
            id := case when created then id end;
        elsif p_on_conflict = 'error' then
            raise unique_violation using
                message = format('job %s already holds key %L of %s', id, p_idempotency_key, p_name),
                constraint = 'jobs_key', detail = id::text;
        elsif p_on_conflict = 'replace' then
            update stoker.jobs j
            set payload = p_payload, priority = p_priority, queue = p_queue, max_attempts = p_max_attempts,
                state = v_state, run_at = case when v_state = 'delayed' then v_due end
            where j.id = (select k.id from stoker.jobs k where k.id = enqueue.id and k.state in ('ready', 'delayed') for no key update skip locked);
            -- One that runs by now is not replaced; one that ended meanwhile is enqueued anew.
            if not found and not exists (select from stoker.jobs j where j.id = enqueue.id) then
                id := null;
            end if;
        end if;
    end loop;
    if p_notify and (created or p_on_conflict = 'replace') then
        if v_state = 'delayed' then
            perform pg_notify('stoker_due', '');
        else
            perform pg_notify('stoker_ready', p_queue);
        end if;
    end if;
end $$;

-- The same in a transaction of its own, for clients that are in none: it commits before it notifies.
-- A commit with a notification holds a lock of the whole cluster until it is on disk, so that writers would commit one after the other.
-- Its caller's rights and search_path, because a procedure that sets either may not commit.
create procedure stoker.enqueue_alone(
    p_name text,
    p_payload jsonb,
    p_queue text,
    p_priority integer,
    p_run_at timestamptz,
    p_delay double precision,
    p_max_attempts integer,
    p_idempotency_key text,
    p_tenant text,
    p_on_conflict text,
    p_notify boolean,
    inout id bigint default null,
    inout created boolean default null
) language plpgsql as $$
declare
    v_stored record;
begin
    if p_idempotency_key is null and p_run_at is null and p_delay is null then
        -- What stoker.enqueue does, at two thirds of the cost.
        id := pg_catalog.nextval('stoker.job_numbers');
        created := true;
        insert into stoker.jobs (id, pos, queue, name, priority, max_attempts, tenant, payload)
        values (id, id, p_queue, p_name, p_priority, p_max_attempts, p_tenant, p_payload);
    else
        v_stored := stoker.enqueue(p_name, p_payload, p_queue, p_priority, p_run_at, p_delay, p_max_attempts, p_idempotency_key, p_tenant,
                                   p_on_conflict, false);
        id := v_stored.id;
        created := v_stored.created;
    end if;
    if not p_notify or not (created or p_on_conflict = 'replace') then
        return;
    end if;
    commit;
    if p_run_at is not null or p_delay > 0 then
        perform pg_catalog.pg_notify('stoker_due', '');
    end if;
    -- What was due a moment later when it was stored was promised to stoker_due.
    if p_delay is null or p_delay <= 0 then
        perform pg_catalog.pg_notify('stoker_ready', p_queue);
    end if;
end $$;

-- Enqueue many jobs, keyed ones among them: ids and which are new, in the order given.
-- If a key of an 'error' job is taken nothing at all is stored: those that were in the way come back with created = false, the others without an id.
-- Rows are inserted in the order of their keys, so that two of these never wait for each other; places in line are in the order given.
-- A key given twice is one job. Loops as stoker.enqueue does. At first without ON CONFLICT, which makes every row dearer, and is needed rarely.
-- The settings, because the planner knows little of what is in arrays: rows are looked up one by one in their index, everything else is hashed.
create function stoker.enqueue_many(
    p_names text[],
    p_payloads jsonb[],
    p_queues text[],
    p_priorities integer[],
    p_run_ats timestamptz[],
    p_delays double precision[],
    p_max_attempts integer[],
    p_idempotency_keys text[],
    p_tenants text[],
    p_on_conflicts text[],
    p_notify boolean default true
) returns table (id bigint, created boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_custom_plan set jit = off as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
    v_replaces boolean := 'replace' = any (p_on_conflicts);
    v_refused boolean;
    v_careful boolean := false;
    v_ids bigint[];
    v_created boolean[];
begin
    if exists (select from unnest(p_on_conflicts) as g (rule) where rule is null or rule not in ('dedupe', 'error', 'replace')) then
        raise exception 'on_conflict must be dedupe, error or replace' using errcode = 'invalid_parameter_value';
    end if;
    loop
        begin
            loop
                with given as materialized (
                    select g.*, coalesce(g.run_at, v_now + make_interval(secs => g.delay)) as due
                    from unnest(p_names, p_payloads, p_queues, p_priorities, p_run_ats, p_delays, p_max_attempts, p_idempotency_keys, p_tenants,
                                p_on_conflicts, v_ids, v_created)
                         with ordinality as g (name, payload, queue, priority, run_at, delay, max_attempts, key, tenant, on_conflict, id, created, ord)
                ),
                known as materialized (
                    select g.ord, g.on_conflict, j.id
                    from given g,
                         lateral (select j.id from stoker.jobs j
                                  where j.name = g.name and coalesce(j.tenant, '') = coalesce(g.tenant, '') and j.idempotency_key = g.key limit 1) j
                    where g.id is null
                ),
                fresh as materialized (
                    select nextval('stoker.job_numbers') as number, g.*
                    from (
                        select g.* from given g
                        where g.id is null and not exists (select from known k where k.ord = g.ord)
                              and not exists (select from known k where k.on_conflict = 'error')
                        order by g.ord
                    ) g
                ),
                made_at_once as (
                    insert into stoker.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, idempotency_key, payload)
                    select number, number, queue, name, case when due > v_now then 'delayed' else 'ready' end, priority,
                           case when due > v_now then due end, max_attempts, tenant, key, payload
                    from fresh
                    where not v_careful
                    order by key collate "C", name collate "C", coalesce(tenant, '') collate "C", ord
                    returning id
                ),
                made_with_care as (
                    insert into stoker.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, idempotency_key, payload)
                    select number, number, queue, name, case when due > v_now then 'delayed' else 'ready' end, priority,
                           case when due > v_now then due end, max_attempts, tenant, key, payload
                    from fresh
                    where v_careful
                    order by key collate "C", name collate "C", coalesce(tenant, '') collate "C", ord
                    on conflict do nothing
                    returning id
                ),
                made as (
                    select id from made_at_once union all select id from made_with_care
                ),
                held as materialized (
                    select j.id
                    from stoker.jobs j
                    where j.id = any (array(select k.id from known k where k.on_conflict = 'replace')) and j.state in ('ready', 'delayed')
                          and not exists (select from known k where k.on_conflict = 'error')
                    order by j.id
                    for no key update skip locked
                ),
                replaced as (
                    update stoker.jobs j
                    set payload = g.payload, priority = g.priority, queue = g.queue, max_attempts = g.max_attempts,
                        state = case when g.due > v_now then 'delayed' else 'ready' end, run_at = case when g.due > v_now then g.due end
                    from known k join given g on g.ord = k.ord
                    where j.id = any (array(select h.id from held h)) and k.id = j.id and k.on_conflict = 'replace'
                )
                select array_agg(coalesce(g.id, k.id, m.id) order by g.ord),
                       array_agg(case when g.id is null then m.id is not null else g.created end order by g.ord),
                       bool_or(k.on_conflict = 'error')
                into v_ids, v_created, v_refused
                from given g left join known k on k.ord = g.ord left join fresh f on f.ord = g.ord left join made m on m.id = f.number;

                if v_refused then
                    -- Undoes what an earlier round stored.
                    raise exception using errcode = 'ST001';
                end if;
                if v_replaces then
                    select array_agg(case when u.created then u.id else j.id end order by u.ord) into v_ids
                    from unnest(v_ids, v_created) with ordinality as u (id, created, ord)
                         left join lateral (select j.id from stoker.jobs j where j.id = u.id limit 1) j on true;
                end if;
                exit when array_position(v_ids, null) is null;
            end loop;
            exit;
        exception
        when sqlstate 'ST001' then
            return query
                select case when not u.created then u.id end, false
                from unnest(v_ids, v_created) with ordinality as u (id, created, ord) order by u.ord;
            return;
        when unique_violation then
            -- Somebody else stored a key meanwhile, or one was given twice: once more from the start.
            if v_careful then
                raise;
            end if;
            v_careful := true;
            v_ids := null;
            v_created := null;
        end;
    end loop;
    if p_notify then
        perform pg_notify('stoker_due', '')
        from unnest(p_run_ats, p_delays) as g (run_at, delay)
        where coalesce(g.run_at, v_now + make_interval(secs => g.delay)) > v_now limit 1;
        perform pg_notify('stoker_ready', g.queue)
        from unnest(p_queues, p_run_ats, p_delays) as g (queue, run_at, delay)
        where coalesce(g.run_at, v_now + make_interval(secs => g.delay), v_now) <= v_now
        group by g.queue;
    end if;
    return query select u.id, u.created from unnest(v_ids, v_created) with ordinality as u (id, created, ord) order by u.ord;
end $$;

-- Cancel a waiting job at once, or store the request for a running one. Never waits for a row somebody else holds.
create function stoker.cancel(p_id bigint, p_reason text default '', p_notify boolean default true, out result text, out state text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    v_job stoker.jobs;
begin
    select * into v_job from stoker.jobs j
    where j.id = p_id and j.state <> 'running' for update skip locked;
    if found then
        delete from stoker.jobs j where j.id = p_id;
        delete from stoker.cancels c where c.job_id = p_id;
        insert into stoker.finished (id, run_no, created_at, claimed_at, attempt, max_attempts, crashes, lost, priority, state, queue, name,
                                     tenant, idempotency_key, payload, error)
        values (v_job.id, v_job.run_no, v_job.created_at, v_job.claimed_at, v_job.attempt, v_job.max_attempts, v_job.crashes, v_job.lost,
                v_job.priority, 'cancelled', v_job.queue, v_job.name, v_job.tenant, v_job.idempotency_key, v_job.payload,
                jsonb_build_object('type', 'Cancelled', 'message', p_reason, 'code', 'STOKER_ABORTED'));
        result := 'cancelled';
        return;
    end if;
    select j.state into state from stoker.jobs j where j.id = p_id;
    if found then
        insert into stoker.cancels (job_id, reason) values (p_id, p_reason) on conflict do nothing;
        if p_notify then
            perform pg_notify('stoker_cancel', p_id::text);
        end if;
        result := 'requested';
        return;
    end if;
    select f.state into state from stoker.finished f where f.id = p_id order by f.finished_at desc limit 1;
    result := case when found then 'not_cancellable' else 'not_found' end;
end $$;

-- Days of stoker.finished. Attached empty under a short lock time-out, so that no settlement waits behind it.
-- They run as the owner of the schema, because only an owner may attach.
create function stoker.attach_day(p_state text, p_day date) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_parent text := 'finished_' || p_state;
    v_name text := v_parent || '_' || to_char(p_day, 'YYYYMMDD');
    v_from timestamptz := p_day::timestamp at time zone 'UTC';
    v_to timestamptz := (p_day + 1)::timestamp at time zone 'UTC';
begin
    if to_regclass(format('stoker.%I', v_name)) is not null then
        return false;
    end if;
    perform set_config('lock_timeout', '50ms', true);
    execute format('create table stoker.%I (like stoker.%I including defaults including constraints)', v_name, v_parent);
    -- Rows that already fell into the net move with it, or the attach would refuse; locked first, so that none follows meanwhile.
    execute format('lock table stoker.%I in access exclusive mode', v_parent || '_default');
    execute format('with moved as (delete from stoker.%I where finished_at >= %L and finished_at < %L returning *) insert into stoker.%I select * from moved',
                   v_parent || '_default', v_from, v_to, v_name);
    execute format('alter table stoker.%I attach partition stoker.%I for values from (%L) to (%L)', v_parent, v_name, v_from, v_to);
    return true;
end $$;

create function stoker.detach_day(p_state text, p_day date) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_parent text := 'finished_' || p_state;
    v_name text := v_parent || '_' || to_char(p_day, 'YYYYMMDD');
begin
    if to_regclass(format('stoker.%I', v_name)) is null then
        return false;
    end if;
    perform set_config('lock_timeout', '50ms', true);
    execute format('alter table stoker.%I detach partition stoker.%I', v_parent, v_name);
    execute format('drop table stoker.%I', v_name);
    return true;
end $$;

do $$
declare
    v_role text;
begin
    foreach v_role in array array['stoker_read', 'stoker_enqueue', 'stoker_worker'] loop
        begin
            execute format('create role %I nologin', v_role);
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then raise notice 'role % is not created: the migrating user may not create roles', v_role;
        end;
        if to_regrole(v_role) is not null then
            execute format('grant usage on schema stoker to %I', v_role);
        end if;
    end loop;
    revoke execute on all routines in schema stoker from public;
    if to_regrole('stoker_read') is not null then
        grant select on all tables in schema stoker to stoker_read;
    end if;
    if to_regrole('stoker_enqueue') is not null then
        grant execute on routine stoker.enqueue, stoker.enqueue_alone, stoker.enqueue_many, stoker.cancel to stoker_enqueue;
        -- For COPY.
        grant insert (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, payload) on stoker.jobs to stoker_enqueue;
        grant usage on sequence stoker.job_numbers to stoker_enqueue;
        grant select (id, state, queue, name, result, error, finished_at, attempt, max_attempts) on stoker.finished to stoker_enqueue;
    end if;
    if to_regrole('stoker_worker') is not null then
        grant select, insert, update, delete on all tables in schema stoker to stoker_worker;
        grant usage on all sequences in schema stoker to stoker_worker;
        grant execute on all routines in schema stoker to stoker_worker;
    end if;
end $$;

-- The first days are made here: while one is attached to a net that rows fell into, a reader may miss those rows for a moment.
select stoker.attach_day(state, (now() at time zone 'UTC')::date + n)
from unnest(array['done', 'dead', 'cancelled']) as state, generate_series(0, 7) as n;
