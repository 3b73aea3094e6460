-- Who: every keeper, each second: the other hosts, and whether their session locks are held. Locks: none.
with held as materialized (
    select (l.classid::bigint << 32) | l.objid::bigint as id from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select oid from pg_database where datname = current_database())
)
select h.id, h.renewals, h.id in (select id from held), h.hostname, h.machine, h.lock_path, h.lock_inode
from stoker.hosts h
where h.id <> %(own)s
