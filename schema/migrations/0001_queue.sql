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

-- Enqueue one job; for SQL, triggers and other languages, and the single enqueue of the library.
-- With a key that a live job holds: 'dedupe' returns that job, 'error' raises unique_violation, 'replace' updates it while it waits.
-- `p_number` is a number taken from stoker.job_numbers before, for a place in line among many.
-- Loops because between a conflict and the look at the winner the winner may have ended.
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
    p_number bigint default null,
    out id bigint,
    out created boolean
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_due timestamptz := coalesce(p_run_at, clock_timestamp() + make_interval(secs => p_delay));
    v_state text := case when v_due > clock_timestamp() then 'delayed' else 'ready' end;
begin
    if p_on_conflict is null or p_on_conflict not in ('dedupe', 'error', 'replace') then
        raise exception 'on_conflict must be dedupe, error or replace, not %', p_on_conflict using errcode = 'invalid_parameter_value';
    end if;
    loop
        created := false;
        if p_idempotency_key is not null then
            -- Looking first spares the sequence a number for every duplicate.
            select j.id into id from stoker.jobs j
            where j.name = p_name and coalesce(j.tenant, '') = coalesce(p_tenant, '') and j.idempotency_key = p_idempotency_key;
        end if;
        if id is null then
            id := coalesce(p_number, nextval('stoker.job_numbers'));
            p_number := null;
            insert into stoker.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, idempotency_key, payload)
            values (id, id, p_queue, p_name, v_state, p_priority, case when v_state = 'delayed' then v_due end, p_max_attempts,
                    p_tenant, p_idempotency_key, p_payload)
            on conflict do nothing;
            created := found;
            exit when created;
            id := null;
            continue;
        end if;
        if p_on_conflict = 'error' then
            raise unique_violation using
                message = format('job %s already holds key %L of %s', id, p_idempotency_key, p_name),
                constraint = 'jobs_key', detail = id::text;
        end if;
        exit when p_on_conflict = 'dedupe';
        -- Waits for whoever else replaces, cancels or claims it.
        update stoker.jobs j
        set payload = p_payload, priority = p_priority, queue = p_queue, max_attempts = p_max_attempts,
            state = v_state, run_at = case when v_state = 'delayed' then v_due end
        where j.id = enqueue.id and j.state in ('ready', 'delayed');
        -- One that runs by now is not replaced; one that ended meanwhile is enqueued anew.
        exit when found or exists (select from stoker.jobs j where j.id = enqueue.id);
        id := null;
    end loop;
    if p_notify and v_state = 'delayed' then
        perform pg_notify('stoker_due', '');
    elsif p_notify and (created or p_on_conflict = 'replace') then
        perform pg_notify('stoker_ready', p_queue);
    end if;
end $$;

-- Cancel a waiting job at once, or store the request for a running one. Never waits for a row somebody else holds.
create function stoker.cancel(p_id bigint, p_reason text default '', out result text, out state text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
        perform pg_notify('stoker_cancel', p_id::text);
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
    revoke execute on all functions in schema stoker from public;
    if to_regrole('stoker_read') is not null then
        grant select on all tables in schema stoker to stoker_read;
    end if;
    if to_regrole('stoker_enqueue') is not null then
        grant execute on function stoker.enqueue, stoker.cancel to stoker_enqueue;
        -- For COPY.
        grant insert (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, payload) on stoker.jobs to stoker_enqueue;
        grant usage on sequence stoker.job_numbers to stoker_enqueue;
        grant select (id, state, queue, name, result, error, finished_at, attempt, max_attempts) on stoker.finished to stoker_enqueue;
    end if;
    if to_regrole('stoker_worker') is not null then
        grant select, insert, update, delete on all tables in schema stoker to stoker_worker;
        grant usage on all sequences in schema stoker to stoker_worker;
        grant execute on all functions in schema stoker to stoker_worker;
    end if;
end $$;
