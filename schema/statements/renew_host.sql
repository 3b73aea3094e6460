-- Who: a keeper, every second. Locks: its own hosts row. Index: hosts_pkey. No row: this host was judged dead.
update stoker.hosts
set renewals = renewals + 1, renewed_at = clock_timestamp()
where id = %(id)s
returning exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.pid = pg_backend_pid()
      and l.database = (select oid from pg_database where datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = %(id)s
) as locked
