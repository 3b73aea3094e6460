-- Who: every keeper, every 15 s: what keeps the oldest snapshot of this database, and whether this host is the one that tells. Locks: none.
-- Whoever owns the oldest transaction number comes before those who merely still see it. Vacuums hold nothing; logical slots keep catalog rows only.
-- Without pg_read_all_stats the times and states of other roles' sessions are null.
with here as materialized (
    select oid, datname from pg_database where datname = current_database()
),
pins as (
    select case when r.pid is null then 'session' else 'replication' end as kind, a.pid::text as name,
           array_remove(array[a.backend_xid::text, a.backend_xmin::text], null) as xids,
           greatest(age(a.backend_xid), age(a.backend_xmin)) as lag, age(a.backend_xid) as owned,
           a.application_name::text as application, a.usename::text as role, a.state, a.xact_start as since
    from pg_stat_activity a left join pg_stat_replication r on r.pid = a.pid
    where (a.datid = (select oid from here) or r.pid is not null)
      and (a.backend_xid is not null or a.backend_xmin is not null)
      and a.pid <> pg_backend_pid() and a.leader_pid is null
      and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
    union all
    select 'prepared', p.gid, array[p.transaction::text], age(p.transaction), age(p.transaction), null, p.owner::text, null, p.prepared
    from pg_prepared_xacts p where p.database = (select datname from here)
    union all
    select 'slot', s.slot_name::text, array[s.xmin::text], age(s.xmin), null, null, null, null, null
    from pg_replication_slots s where s.xmin is not null
),
oldest as (
    select * from pins order by lag desc, owned desc nulls last, since nulls last, name limit 1
)
select o.kind, o.name, o.xids, o.application, o.role, o.state,
       extract(epoch from clock_timestamp() - o.since)::float8 as open_s,
       pg_stat_get_dead_tuples('stoker.jobs'::regclass) as dead,
       coalesce((select min(id) from stoker.hosts) = %(host)s, false) as tells
from (select) always left join oldest o on true
